package sandbox

import (
	"encoding/json"
	"io"
	"os"
	"os/signal"

	"golang.org/x/sys/unix"

	"berth/structs"
)

// Init is pid 1 of a sandbox of Start, from start to end. The caller exits with the result. It has marked all
// inherited files close-on-exec.
func Init() int {
	conn := os.NewFile(socketFD, "sandbox")
	up := json.NewEncoder(conn)
	var m message
	err := json.NewDecoder(conn).Decode(&m)
	if err != nil || m.Config == nil || m.Group == nil {
		return 1
	}

	signal.Notify(make(chan os.Signal, 1), unix.SIGTERM, unix.SIGINT, unix.SIGHUP) // only the parent ends it
	// Start made the output of the program the stdout and stderr of this process.
	box, err := Run(m.Config, os.Stdout, os.Stderr, m.Group)
	if err == nil {
		err = releaseOutput()
	}
	if err != nil {
		_ = up.Encode(&message{Error: structs.ErrorToWire(err)})
		return 1
	}

	err = up.Encode(&message{Started: true})
	if err != nil {
		return 1
	}

	go func() {
		_, _ = io.Copy(io.Discard, conn) // until the parent is gone
		os.Exit(1)
	}()
	exit, err := box.Wait()
	if err != nil {
		// The end of the program is unknown, which is no success.
		exit.Code = -1
	}

	err = up.Encode(&message{Exit: &exit})
	if err != nil {
		return 1
	}

	return 0
}

// releaseOutput closes the task's output in pid 1: the output has to end with the task's processes.
func releaseOutput() error {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer null.Close()
	for fd := 1; fd <= 2; fd++ {
		err := unix.Dup3(int(null.Fd()), fd, 0)
		if err != nil {
			return err
		}
	}
	return nil
}
