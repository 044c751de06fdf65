# made by `longflash docs fish` from server/options.c
complete -c longflash -f
complete -c longflash -n __fish_use_subcommand -a serve -d 'serves a model over HTTP'
complete -c longflash -n __fish_use_subcommand -a plan -d 'says what a configuration takes in memory, and whether it fits'
complete -c longflash -n __fish_use_subcommand -a run -d 'answers one question on the terminal'
complete -c longflash -n __fish_use_subcommand -a load -d 'measures a server under load'
complete -c longflash -n __fish_use_subcommand -a tokenize -d 'prints the token ids of a text, or the text of ids'
complete -c longflash -n __fish_use_subcommand -a health -d 'asks a server whether it is ready'
complete -c longflash -n __fish_use_subcommand -a documents -d 'lists, checks, removes and moves what --cache-dir has kept'
complete -c longflash -n '__fish_seen_subcommand_from documents' -a 'ls verify rm export import'
complete -c longflash -n __fish_use_subcommand -a quantize -d 'writes a model again with quantized matrices'
complete -c longflash -n __fish_use_subcommand -a docs -d 'prints a document that the program makes of its own tables'
complete -c longflash -n '__fish_seen_subcommand_from docs' -a 'api metrics options man bash zsh fish'
complete -c longflash -n __fish_use_subcommand -a version -d 'prints version, commit, backends and libraries'
complete -c longflash -n __fish_use_subcommand -a help -d 'prints the page of a command'
complete -c longflash -n '__fish_seen_subcommand_from help' -a 'serve plan run load tokenize health documents quantize docs version help'
complete -c longflash -n '__fish_seen_subcommand_from serve plan run tokenize quantize' -l model -d 'model directory, or the name of a model in this machine\'s Hugging Face cache' -x -a '(__fish_complete_directories)'
complete -c longflash -n '__fish_seen_subcommand_from serve plan run' -l load -d 'files: weights from the directory; dummy: random weights of the same shapes, from config.json alone' -x -a 'files dummy'
complete -c longflash -n '__fish_seen_subcommand_from tokenize' -l load -d 'dummy: a directory without a tokenizer will do; its texts are token ids with spaces between them' -x -a 'files dummy'
complete -c longflash -n '__fish_seen_subcommand_from serve plan run' -l quantize -d 'what plain weights become while they are read: half of their bytes, or a quarter' -x -a 'none fp8 int8 int4'
complete -c longflash -n '__fish_seen_subcommand_from serve' -l seed -d 'seed of the dummy weights' -x
complete -c longflash -n '__fish_seen_subcommand_from serve plan run' -l max-position -d 'positions of the model, more than its max_position_embeddings: nobody has made it for them' -x
complete -c longflash -n '__fish_seen_subcommand_from serve plan run' -l rope-scaling -d 'YaRN up to --max-position, for a model whose configuration has no scaling' -x
complete -c longflash -n '__fish_seen_subcommand_from serve' -l model-id -d 'what /v1/models lists and requests name as "model"' -x
complete -c longflash -n '__fish_seen_subcommand_from serve' -l served-model-name -d 'names of the model: answers have the first, or --model-id, requests any of them; * is any name at all' -x
complete -c longflash -n '__fish_seen_subcommand_from serve run' -l tool-parser -d 'in which form the model calls tools and reasons' -x
complete -c longflash -n '__fish_seen_subcommand_from serve' -l reasoning -d 'whether a model\'s reasoning is split off from its answers' -x -a 'auto none'
complete -c longflash -n '__fish_seen_subcommand_from serve' -l generation-config -d 'whether generation_config.json says how to sample where a request does not' -x -a 'auto none'
complete -c longflash -n '__fish_seen_subcommand_from serve plan run' -l ctx -d 'longest prompt + answer of one request; auto: the longest that fits' -x
complete -c longflash -n '__fish_seen_subcommand_from serve plan run' -l memory -d 'ceiling for the whole process, on a GPU for what it puts into the GPU\'s memory' -x
complete -c longflash -n '__fish_seen_subcommand_from serve plan run' -l kv-tokens -d 'KV cache of exactly this many tokens' -x
complete -c longflash -n '__fish_seen_subcommand_from serve plan run' -l kv-dtype -d 'element type of the KV cache' -x -a 'auto f32 bf16 fp8'
complete -c longflash -n '__fish_seen_subcommand_from serve plan' -l snapshots -d 'states that the prefix cache keeps, of models that have such' -x
complete -c longflash -n '__fish_seen_subcommand_from serve plan run' -l no-fusion -d 'run the plain ops alone, to compare'
complete -c longflash -n '__fish_seen_subcommand_from serve plan' -l prefix-cache -d 'keep the KV blocks of finished requests, so that the same document is not read twice' -x -a 'on off'
complete -c longflash -n '__fish_seen_subcommand_from serve plan run' -l cache-dir -d 'keep documents and blocks of the prefix cache in this directory, over restarts' -x -a '(__fish_complete_directories)'
complete -c longflash -n '__fish_seen_subcommand_from serve plan run' -l cache-disk -d 'bytes that the files of --cache-dir may take' -x
complete -c longflash -n '__fish_seen_subcommand_from serve plan' -l cache-memory -d 'of this machine\'s memory, for blocks that leave a GPU\'s cache' -x
complete -c longflash -n '__fish_seen_subcommand_from serve' -l cache-meet -d 'on a GPU, compute from the front while slow blocks come back from the end' -x -a 'on off'
complete -c longflash -n '__fish_seen_subcommand_from serve plan' -l concurrency -d 'requests of --ctx tokens that must fit at once' -x
complete -c longflash -n '__fish_seen_subcommand_from serve plan' -l text-memory -d 'memory for texts: bodies, what is made of them, and replies' -x
complete -c longflash -n '__fish_seen_subcommand_from serve plan' -l document-memory -d 'memory for the texts of documents (/v1/documents)' -x
complete -c longflash -n '__fish_seen_subcommand_from serve' -l document-tokens -d 'tokens that the documents of one key may have together' -x
complete -c longflash -n '__fish_seen_subcommand_from serve plan' -l response-memory -d 'memory for stored responses (/v1/responses)' -x
complete -c longflash -n '__fish_seen_subcommand_from serve plan run' -l device -d 'cpu, or cuda:N for a GPU; auto: the first GPU where this build and the machine have one, else the CPU' -x
complete -c longflash -n '__fish_seen_subcommand_from serve plan run quantize' -l threads -d 'worker threads' -x
complete -c longflash -n '__fish_seen_subcommand_from serve plan run' -l parallel -d 'tp=N: each layer is divided over N ranks; cp=N: each context; tp=N,cp=M: both; auto: as plan finds best' -x
complete -c longflash -n '__fish_seen_subcommand_from serve plan run' -l isa -d 'instruction set of the CPU not to be exceeded' -x -a 'auto c avx2 avx512 avx512-bf16 amx'
complete -c longflash -n '__fish_seen_subcommand_from serve plan run' -l chunk -d 'tokens of one step at most; sizes the workspace, not the context' -x
complete -c longflash -n '__fish_seen_subcommand_from serve plan' -l max-seqs -d 'requests that run at once at most' -x
complete -c longflash -n '__fish_seen_subcommand_from serve' -l step-ms -d 'time a step may take' -x
complete -c longflash -n '__fish_seen_subcommand_from serve plan run' -l speculate -d 'tokens that a step tries beside the next one, taken from the prompt; auto: as many as pay' -x
complete -c longflash -n '__fish_seen_subcommand_from serve' -l queue -d 'waiting requests at most; past it 429' -x
complete -c longflash -n '__fish_seen_subcommand_from serve' -l watchdog -d 'no step for so long with work queued: the process ends with status 1; 0: off' -x
complete -c longflash -n '__fish_seen_subcommand_from serve' -l host -d 'address to listen on; anything but loopback needs keys or --insecure-no-auth' -x
complete -c longflash -n '__fish_seen_subcommand_from serve' -l port -d 'port to listen on; 0: any free one' -x
complete -c longflash -n '__fish_seen_subcommand_from serve' -l api-keys-file -d 'one key a line, and its limits; SIGHUP reads it again' -r -F
complete -c longflash -n '__fish_seen_subcommand_from serve' -l insecure-no-auth -d 'listen beyond loopback without keys: anyone who reaches the port may use it'
complete -c longflash -n '__fish_seen_subcommand_from serve' -l cors-origin -d 'allow browsers\' requests from this origin; may be given several times' -x
complete -c longflash -n '__fish_seen_subcommand_from serve' -l allowed-host -d 'accept this Host header beside the loopback names; may be given several times' -x
complete -c longflash -n '__fish_seen_subcommand_from serve' -l trusted-proxy -d 'a proxy\'s address or network, whose X-Forwarded-For is believed; may be given several times' -x
complete -c longflash -n '__fish_seen_subcommand_from serve plan' -l max-body -d 'largest request body; past it 413' -x
complete -c longflash -n '__fish_seen_subcommand_from serve' -l max-document -d 'largest text of a document; past it 413' -x
complete -c longflash -n '__fish_seen_subcommand_from serve plan' -l connections -d 'connections at once' -x
complete -c longflash -n '__fish_seen_subcommand_from serve' -l connections-per-address -d 'of these, from one address; 0: all of them. Those of a --trusted-proxy count for its clients' -x
complete -c longflash -n '__fish_seen_subcommand_from serve' -l request-timeout -d 'a request that takes longer ends with what it has' -x
complete -c longflash -n '__fish_seen_subcommand_from serve' -l drain-timeout -d 'what requests in flight may take after SIGTERM; then they are ended and told so' -x
complete -c longflash -n '__fish_seen_subcommand_from serve' -l no-page -d 'leave out the page for browsers at /'
complete -c longflash -n '__fish_seen_subcommand_from serve' -l keep-alive -d 'what a silent stream sends every 10 s' -x -a 'comment chunk off'
complete -c longflash -n '__fish_seen_subcommand_from serve' -l metrics-prefix -d 'prefix of the names in /metrics' -x -a 'longflash vllm'
complete -c longflash -n '__fish_seen_subcommand_from serve plan run load tokenize health documents quantize' -l config -d 'JSON file of settings ("max_seqs" for --max-seqs); "comment" keys are for people' -r -F
complete -c longflash -n '__fish_seen_subcommand_from serve run' -l log-level -d 'least level that is logged' -x -a 'debug info warn error'
complete -c longflash -n '__fish_seen_subcommand_from serve' -l log-file -d 'log here and not on standard error; SIGHUP opens it again' -r -F
complete -c longflash -n '__fish_seen_subcommand_from serve plan run load tokenize health documents quantize' -l help -d 'this page'
complete -c longflash -n '__fish_seen_subcommand_from run' -l seed -d 'seed of sampling and of the dummy weights' -x
complete -c longflash -n '__fish_seen_subcommand_from load' -l seed -d 'seed of the prompts' -x
complete -c longflash -n '__fish_seen_subcommand_from documents' -l cache-dir -d 'the directory that a server was given as --cache-dir' -x -a '(__fish_complete_directories)'
complete -c longflash -n '__fish_seen_subcommand_from documents' -l all -d 'rm: remove what every identity left, and all documents; import: make identities that are not there'
complete -c longflash -n '__fish_seen_subcommand_from plan' -l gpu-memory -d 'plan for a GPU of so much memory, whether this machine has it or not' -x
complete -c longflash -n '__fish_seen_subcommand_from plan' -l gpu-sms -d 'multiprocessors of the GPU of --gpu-memory' -x
complete -c longflash -n '__fish_seen_subcommand_from plan' -l gpus -d 'how many of --gpu-memory there are, for --parallel auto' -x
complete -c longflash -n '__fish_seen_subcommand_from plan' -l forecast -d 'in place of a plan what 1, 2, 4 … N GPUs of --gpu-memory would take by the model of costs, in hosts of 8' -x
complete -c longflash -n '__fish_seen_subcommand_from serve' -l rank -d 'this process is rank R of --parallel, the others are processes, too; 0 is the server' -x
complete -c longflash -n '__fish_seen_subcommand_from serve' -l ranks-address -d 'where rank 0 waits for the others while it starts' -x
complete -c longflash -n '__fish_seen_subcommand_from serve' -l ranks-secret-file -d 'a file with the secret that all ranks know' -r -F
complete -c longflash -n '__fish_seen_subcommand_from serve' -l ranks-timeout -d 'how long a rank waits for the others to be started' -x
complete -c longflash -n '__fish_seen_subcommand_from plan' -l json -d 'print the plan as one JSON object'
complete -c longflash -n '__fish_seen_subcommand_from plan' -l ops -d 'also print what each op of a step takes'
complete -c longflash -n '__fish_seen_subcommand_from plan' -l profile -d '--ops with measured times'
complete -c longflash -n '__fish_seen_subcommand_from documents' -l json -d 'print a JSON array, of an object for each identity and kind of block'
complete -c longflash -n '__fish_seen_subcommand_from run' -l document -d 'the document to read; "-" for standard input, @NAME for a document of --cache-dir' -r -F
complete -c longflash -n '__fish_seen_subcommand_from run' -l max-tokens -d 'longest answer' -x
complete -c longflash -n '__fish_seen_subcommand_from run' -l temperature -d '0: the likeliest token each time' -x
complete -c longflash -n '__fish_seen_subcommand_from run' -l raw -d 'no chat template: the text as it is, special tokens recognized, as in /v1/completions'
complete -c longflash -n '__fish_seen_subcommand_from run' -l tools -d 'tools that the answer may call, as /v1/chat/completions takes them; a call is printed as a line of JSON' -r -F
complete -c longflash -n '__fish_seen_subcommand_from run' -l json-schema -d 'the answer is JSON that meets this schema; "-" for standard input' -r -F
complete -c longflash -n '__fish_seen_subcommand_from load' -l json-schema -d 'ask for JSON that meets this schema; an answer that is whole and does not parse counts as failed' -r -F
complete -c longflash -n '__fish_seen_subcommand_from run' -l regex -d 'all of the answer matches this pattern' -x
complete -c longflash -n '__fish_seen_subcommand_from run' -l choice -d 'the answer is one of these; given once for each' -x
complete -c longflash -n '__fish_seen_subcommand_from tokenize' -l raw -d 'no BOS, and special tokens are ordinary text'
complete -c longflash -n '__fish_seen_subcommand_from tokenize' -l decode -d 'the arguments are ids: print their text'
complete -c longflash -n '__fish_seen_subcommand_from tokenize' -l count -d 'print the number of tokens only'
complete -c longflash -n '__fish_seen_subcommand_from quantize' -l to -d 'the format of the matrices of layers, as --quantize of serve makes it' -x -a 'fp8 int8 int4'
complete -c longflash -n '__fish_seen_subcommand_from quantize' -l out -d 'the directory to make; it must not be there' -x -a '(__fish_complete_directories)'
complete -c longflash -n '__fish_seen_subcommand_from load' -l url -d 'the server; its key, if it needs one, is the first of LONGFLASH_API_KEYS' -x
complete -c longflash -n '__fish_seen_subcommand_from health' -l url -d 'the server; no key is needed' -x
complete -c longflash -n '__fish_seen_subcommand_from load' -l concurrency -d 'requests at once, a test each' -x
complete -c longflash -n '__fish_seen_subcommand_from load' -l lengths -d 'prompt tokens, a test each' -x
complete -c longflash -n '__fish_seen_subcommand_from load' -l dialect -d 'the API that is asked; auto: chat with --documents or --workload, else completions' -x -a 'auto completions chat responses messages'
complete -c longflash -n '__fish_seen_subcommand_from load' -l workload -d 'what is asked: passages to copy, a fact, a summary, a conversation; random: words that say nothing' -x -a 'random extract qa summary chat'
complete -c longflash -n '__fish_seen_subcommand_from load' -l output-tokens -d 'tokens to generate per request; with --workload at most' -x
complete -c longflash -n '__fish_seen_subcommand_from load' -l rounds -d 'requests of each client in one test' -x
complete -c longflash -n '__fish_seen_subcommand_from load' -l shared-prefix -d 'leading tokens that all prompts share, for the prefix cache to find' -x
complete -c longflash -n '__fish_seen_subcommand_from load' -l documents -d 'put N documents of --lengths words, wait until they have been read, and ask about them by name' -x
complete -c longflash -n '__fish_seen_subcommand_from load' -l zipf -d 'which of them: the i-th with a probability proportional to 1 / i^S; 0: all alike' -x
complete -c longflash -n '__fish_seen_subcommand_from load' -l csv -d 'also write the results as CSV' -r -F
complete -c longflash -n '__fish_seen_subcommand_from load' -l find-limit -d 'search the longest prompt and the highest concurrency that are served within the bounds'
complete -c longflash -n '__fish_seen_subcommand_from load' -l ttft-ms -d 'bound on the time to first token (p90)' -x
complete -c longflash -n '__fish_seen_subcommand_from load' -l itl-ms -d 'bound on the time between tokens (p90), as they arrive' -x
