package executor

import (
	"encoding/json"
	"errors"
	"io"
	"net"
	"os"

	"golang.org/x/sys/unix"

	"berth/client/cgroups"
	"berth/structs"
)

// serve answers the agent until the process ends.
func (s *supervisor) serve() {
	for {
		conn, err := s.ln.Accept()
		if err != nil {
			if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ECONNABORTED) {
				continue
			}
			return
		}
		go s.serveConn(conn)
	}
}

// serveConn serves the one request of a connection.
func (s *supervisor) serveConn(conn net.Conn) {
	defer conn.Close()
	var req request
	if err := json.NewDecoder(conn).Decode(&req); err != nil {
		return // an agent that ended during its request
	}
	if req.Op == opWait {
		_, _ = io.Copy(io.Discard, conn) // until either process ends
		return
	}
	_ = json.NewEncoder(conn).Encode(s.serveRequest(&req))
}

func (s *supervisor) serveRequest(req *request) *reply {
	switch req.Op {
	case opSignal:
		return replyTo(classifySignalError(s.proc.Signal(unix.Signal(req.Signal))))
	case opStop:
		return replyTo(classifySignalError(s.stop(unix.Signal(req.Signal), req.Timeout)))
	case opStats:
		stats := s.stats()
		return &reply{Stats: &stats}
	}
	return replyTo(structs.Invalidf("a supervisor cannot %q", req.Op))
}

// classifySignalError turns the errors of a signal after the task's end into their class.
func classifySignalError(err error) error {
	if errors.Is(err, unix.ESRCH) || errors.Is(err, unix.EPIPE) || errors.Is(err, os.ErrClosed) {
		return structs.Preconditionf("the task has ended")
	}
	return err
}

// stats reads the cgroup; without one it counts the processes itself.
func (s *supervisor) stats() cgroups.Stats {
	if !s.group.Empty() {
		return s.group.Stats()
	}
	return tallyTree(s.proc.PID())
}
