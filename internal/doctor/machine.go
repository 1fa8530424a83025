package doctor

import (
	"context"
	"syscall"
)

const (
	fewDescriptors = 4096
	littleSpace    = 1 << 30
)

// machine looks at what the system grants a process.
func machine(ctx context.Context, c Config) []Check {
	return lookAt(ctx, c.Within, "machine.files", "", func(_ context.Context, n *notes) {
		switch most, err := c.Descriptors(); {
		case err != nil:
			n.advice("machine.files", "Nothing, if this system has no such limit.",
				"How many files and connections a process may have open cannot be told: %v.", err)
		case most < fewDescriptors:
			n.advice("machine.files", "Raise it for the server: LimitNOFILE=65536 in the systemd unit, or ulimit -n 65536 before it starts.",
				"A process may have only %d files and connections open here: every client needs one, so an attack uses them up.", most)
		default:
			n.ok("machine.files", "A process may have %d files and connections open.", most)
		}
	})
}

func descriptors() (uint64, error) {
	var limit syscall.Rlimit
	err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit)
	return uint64(limit.Cur), err
}

// freeSpace is what is left for those who are not root.
func freeSpace(folder string) (uint64, error) {
	var s syscall.Statfs_t
	err := syscall.Statfs(folder, &s)
	return uint64(s.Bavail) * uint64(s.Bsize), err
}
