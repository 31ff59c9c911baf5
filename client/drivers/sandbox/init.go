package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"berth/client/cgroups"
	"berth/structs"
)

// Init is the whole life of pid 1 in a sandbox; the caller exits with its result. The caller has marked
// all inherited files close-on-exec.
func Init() int {
	_ = os.WriteFile("/proc/self/comm", []byte("berth-init"), 0) // for lists of processes
	swallowSignals()
	conn := os.NewFile(socketFD, "sandbox")
	down := json.NewDecoder(conn)
	up := json.NewEncoder(conn)
	var m message
	if err := down.Decode(&m); err != nil || m.Config == nil || m.Group == nil {
		return 1
	}
	pid, err := beginInit(m.Config, m.Group)
	if err != nil {
		_ = up.Encode(&message{Error: structs.ErrorToWire(err)})
		return 1
	}
	if err := up.Encode(&message{Started: pid}); err != nil {
		return 1
	}
	go forwardSignals(down, pid)
	exit, err := Reap(pid)
	if err != nil {
		exit.Code = -1
	}
	if err := up.Encode(&message{Exit: &exit}); err != nil {
		return 1
	}
	return 0
}

// swallowSignals keeps signals from inside from ending pid 1. Ignoring them would be inherited.
func swallowSignals() { signal.Notify(make(chan os.Signal, 1)) }

// beginInit builds the root and starts the program in it. The files of the cgroup are out of sight in the
// root, so it opens them before.
func beginInit(cfg *Config, group *cgroups.Group) (int, error) {
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil { // hides /proc/1 from the program
		return 0, err
	}
	entry, err := group.Entry()
	if err != nil {
		return 0, err
	}
	if err := buildRoot(cfg); err != nil {
		return 0, err
	}
	pid, err := cfg.Program.Start(os.Stdout, os.Stderr, entry)
	if err != nil {
		return 0, err
	}
	return pid, errors.Join(entry.Close(), releaseOutput())
}

// releaseOutput closes the task's output, which has to end with the task's processes.
func releaseOutput() error {
	null, err := os.OpenFile("/dev/null", os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	for fd := 1; fd <= 2; fd++ {
		if err := unix.Dup3(int(null.Fd()), fd, 0); err != nil {
			return err
		}
	}
	return nil
}

// forwardSignals forwards signals to the program. When the parent is gone it ends the sandbox.
func forwardSignals(down *json.Decoder, pid int) {
	for {
		var m message
		if err := down.Decode(&m); err != nil {
			os.Exit(1)
		}
		// The program is a child that is not reaped before Init is over, so the pid is its own.
		_ = unix.Kill(pid, unix.Signal(m.Signal))
	}
}

// Reap reaps ended children until the one with the pid has ended, and returns how it ended.
func Reap(pid int) (Exit, error) {
	for {
		var ws unix.WaitStatus
		ended, err := unix.Wait4(-1, &ws, 0, nil)
		switch {
		case errors.Is(err, unix.EINTR):
		case err != nil:
			return Exit{}, fmt.Errorf("waiting for process %d: %w", pid, err)
		case ended == pid && ws.Signaled():
			return Exit{Signal: int(ws.Signal())}, nil
		case ended == pid:
			return Exit{Code: ws.ExitStatus()}, nil
		}
	}
}
