/* operator new as failing_alloc.h wants it, for builds in which the malloc below it cannot be replaced. */
#include <cstdlib>
#include <new>

/* malloc is the wrapped one. */
void *operator new(std::size_t n)
{
    for (;;) {
        void *ptr = std::malloc(n ? n : 1);
        if (ptr) return ptr;
        std::new_handler handler = std::get_new_handler();
        if (!handler) throw std::bad_alloc();
        handler();
    }
}

void *operator new(std::size_t n, const std::nothrow_t &) noexcept
{
    return std::malloc(n ? n : 1);
}

void operator delete(void *ptr) noexcept
{
    std::free(ptr);
}

void operator delete(void *ptr, std::size_t) noexcept
{
    std::free(ptr);
}
