package hostpath

import (
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"time"

	"google.golang.org/grpc"

	"berth/csi"
)

// stopTimeout is the time after which a server that ends closes the connections of calls in flight. It waits
// for the calls without a bound.
const stopTimeout = 5 * time.Second

// listenAt makes the socket. It first removes one that a killed process has left.
func listenAt(endpoint string) (net.Listener, error) {
	path, err := csi.SocketPath(endpoint)
	if err != nil {
		return nil, err
	}

	info, err := os.Lstat(path)
	if err == nil && info.Mode().Type() == fs.ModeSocket {
		err = os.Remove(path)
		if err != nil {
			return nil, fmt.Errorf("hostpath: removing a stale socket: %w", err)
		}
	}

	l, err := net.Listen("unix", path)
	if err != nil {
		return nil, fmt.Errorf("hostpath: listening on %s: %w", path, err)
	}

	// The umask must not decide who connects.
	err = os.Chmod(path, 0o660)
	if err != nil {
		return nil, errors.Join(err, l.Close())
	}

	return l, nil
}

// stopServer ends a server. After the timeout it closes the connections.
func stopServer(srv *grpc.Server) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		srv.GracefulStop()
	}()
	select {
	case <-done:
	case <-time.After(stopTimeout):
		srv.Stop()
		<-done
	}
}
