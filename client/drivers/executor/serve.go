package executor

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"berth/client/drivers/cgroups"
	"berth/structs"
)

// serveConn serves the request of a connection.
func (s *supervisor) serveConn(conn net.Conn) {
	defer conn.Close()
	var req request
	err := json.NewDecoder(conn).Decode(&req)
	if err != nil {
		return // an agent that ended during its request
	}
	if req.Op == opWait {
		_, _ = io.Copy(io.Discard, conn) // until either process ends
		return
	}
	_ = json.NewEncoder(conn).Encode(s.serveRequest(&req))
}

func (s *supervisor) serveRequest(req *request) *reply {
	sig := unix.Signal(req.Signal)
	var err error
	switch req.Op {
	case opSignal:
		err = s.proc.Signal(sig)
	case opStop:
		err = s.stop(sig, req.Timeout)
	case opStats:
		return &reply{Stats: new(s.stats())}
	default:
		err = structs.Invalidf("supervisor: unknown operation %q", req.Op)
	}
	return replyTo(classifySignalError(err))
}

// classifySignalError turns the errors of a signal after the task's end into their class.
func classifySignalError(err error) error {
	if errors.Is(err, unix.ESRCH) ||
		errors.Is(err, unix.EPIPE) ||
		errors.Is(err, os.ErrClosed) {
		return structs.Preconditionf("the task has ended")
	}
	return err
}

// stats reads the counters of the cgroup. Without a cgroup it adds up the counters of the processes.
func (s *supervisor) stats() cgroups.Stats {
	if !s.group.Empty() {
		return s.group.Stats()
	}
	return tallyTree(s.record.Task.PID)
}
