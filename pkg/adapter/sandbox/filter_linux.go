//go:build amd64 || arm64

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"runtime"
	"unsafe"

	"golang.org/x/sys/unix"
)

// allowed is what the Go runtime needs to compute, to collect garbage and to speak over descriptors that are open already. What
// is not here fails with EPERM: open, socket, connect, execve, ptrace, and whatever a later kernel adds.
var allowed = append([]uint32{
	unix.SYS_READ, unix.SYS_WRITE, unix.SYS_PREAD64, unix.SYS_READV, unix.SYS_WRITEV, unix.SYS_CLOSE, unix.SYS_FCNTL, unix.SYS_FSTAT,
	unix.SYS_LSEEK, unix.SYS_MMAP, unix.SYS_MUNMAP, unix.SYS_MPROTECT, unix.SYS_MADVISE, unix.SYS_MINCORE, unix.SYS_BRK,
	unix.SYS_RT_SIGACTION, unix.SYS_RT_SIGPROCMASK, unix.SYS_RT_SIGRETURN, unix.SYS_SIGALTSTACK, unix.SYS_FUTEX,
	unix.SYS_SCHED_YIELD, unix.SYS_SCHED_GETAFFINITY, unix.SYS_NANOSLEEP, unix.SYS_CLOCK_NANOSLEEP, unix.SYS_CLOCK_GETTIME,
	unix.SYS_GETPID, unix.SYS_GETTID, unix.SYS_EPOLL_CREATE1, unix.SYS_EPOLL_CTL, unix.SYS_EPOLL_PWAIT, unix.SYS_EVENTFD2,
	unix.SYS_PIPE2, unix.SYS_GETRANDOM, unix.SYS_TIMER_CREATE, unix.SYS_TIMER_SETTIME, unix.SYS_TIMER_DELETE, unix.SYS_SETITIMER,
	unix.SYS_RESTART_SYSCALL, unix.SYS_SET_ROBUST_LIST, unix.SYS_RSEQ, unix.SYS_EXIT, unix.SYS_EXIT_GROUP,
}, allowedHere...)

// Offsets in struct seccomp_data: the number of the call, the architecture, and the low half of the first argument.
const (
	offsetNumber, offsetArch, offsetFirst = 0, 4, 16
	retAllow, retErrno                    = 0x7fff0000, 0x00050000
)

func load(offset uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset}
}

func answer(value uint32) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: value}
}

// unless skips the next instructions where the loaded value is not k.
func unless(k uint32, skip uint8) unix.SockFilter {
	return unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: k, Jf: skip}
}

// program is the filter: threads and signals for this very process, what is allowed, and EPERM.
func program(pid uint32) []unix.SockFilter {
	out := []unix.SockFilter{
		load(offsetArch), {Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: arch, Jt: 1}, answer(retErrno | uint32(unix.EPERM)),
		load(offsetNumber), // of another architecture the number would mean another call
	}
	for _, number := range allowed {
		out = append(out, unless(number, 1), answer(retAllow))
	}
	return append(out,
		unless(unix.SYS_CLONE3, 1), answer(retErrno|uint32(unix.ENOSYS)), // its flags are in memory, which a filter does not see
		unless(unix.SYS_TGKILL, 4), load(offsetFirst), unless(pid, 1), answer(retAllow), answer(retErrno|uint32(unix.EPERM)),
		unless(unix.SYS_CLONE, 3), load(offsetFirst),
		unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JSET | unix.BPF_K, K: unix.CLONE_THREAD, Jf: 1}, answer(retAllow),
		answer(retErrno|uint32(unix.EPERM)),
	)
}

// filter gives up all rights but those of the program, for every thread.
func filter() error {
	code := program(uint32(os.Getpid()))
	prog := unix.SockFprog{Len: uint16(len(code)), Filter: &code[0]}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return fmt.Errorf("%w: %w", ErrNotConfined, err)
	}
	thread, _, errno := unix.Syscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&prog)))
	runtime.KeepAlive(code)
	if errno != 0 {
		return fmt.Errorf("%w: %w", ErrNotConfined, errno)
	}
	if thread != 0 {
		return errors.New("confine process: a thread keeps its rights")
	}
	return nil
}
