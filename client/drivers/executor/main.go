package executor

import (
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"runtime/debug"

	"golang.org/x/sys/unix"

	"berth/client/drivers/sandbox"
	"berth/client/machine/netns"
)

// InitArg is the argument that makes Main pid 1 of a sandbox without a supervisor (see sandbox.Start).
const InitArg = "init"

// The file descriptors that the agent passes to a supervisor in addition to stdin (the spec) and stderr (the
// log).
const (
	lockFD   = 3
	statusFD = 4
)

// Other is another duty of Main, whose first argument is Arg. Main has the rest of the arguments, and returns
// the exit code.
type Other struct {
	Arg  string
	Main func(args []string) int
}

// Main is the hidden command `berth executor <dir>`: a task's supervisor. It returns the exit code. Its
// caller has started no goroutine.
func Main(args []string, others ...Other) int {
	// The task inherits no file that this process has open or has inherited.
	err := unix.CloseRange(lockFD, math.MaxUint32, unix.CLOSE_RANGE_CLOEXEC)
	if err != nil {
		fmt.Fprintln(os.Stderr, "executor: the kernel is too old:", err)
		return 1
	}

	if len(args) == 1 && args[0] == InitArg {
		return sandbox.Init()
	}

	if len(args) == 3 && args[0] == CopyArg {
		return copyPipes(args[1], args[2])
	}

	for _, o := range others {
		if len(args) > 0 && args[0] == o.Arg {
			return o.Main(args[1:])
		}
	}

	if len(args) > 0 && args[0] == netns.PauseArg {
		return netns.PauseMain(args[1:])
	}

	if len(args) != 1 {
		fmt.Fprintln(os.Stderr, "executor: runs a task for an agent; expected the task's directory")
		return 2
	}

	// For lists of processes: a supervisor of a sandbox is executed by the number of a file.
	_ = os.WriteFile("/proc/self/comm", []byte("berth-executor"), 0)
	debug.SetGCPercent(-1) // a start allocates less than 1 MB
	s, err := beginTask(args[0])
	rerr := reportStart(s, err)
	debug.SetGCPercent(25) // a supervisor keeps little and lives long
	if err == nil && rerr != nil {
		fmt.Fprintln(os.Stderr, "executor: the agent left while the task started:", rerr)
	}
	if err != nil {
		return 1
	}

	return s.run()
}

// beginTask reads the spec and starts the task.
func beginTask(dir string) (*supervisor, error) {
	unix.Umask(0o022)
	if err := os.Chdir(dir); err != nil { // so that the socket's path is short
		return nil, err
	}
	specs := json.NewDecoder(os.Stdin)
	spec, err := readSpec(specs)
	if err != nil {
		return nil, err
	}
	return startTask(spec, specs, filepath.Base(dir))
}

// reportStart reports the outcome of the start to the agent.
func reportStart(s *supervisor, err error) error {
	f := os.NewFile(statusFD, "status")
	defer f.Close()
	answer := replyTo(err)
	if err == nil {
		answer.Supervisor = s.record.Supervisor.PID
	}
	return json.NewEncoder(f).Encode(answer)
}
