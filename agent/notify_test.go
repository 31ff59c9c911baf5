package agent

import (
	"net"
	"os"
	"path/filepath"
	"testing"
)

func TestAgent_TellsTheServiceManagerItsState(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "notify")
	manager, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = manager.Close() }()
	t.Setenv("NOTIFY_SOCKET", socket)
	_, _, stop := startServer(t, "-data-dir", t.TempDir())
	expect := func(want string) {
		t.Helper()
		got := make([]byte, 64)
		n, err := manager.Read(got)
		if err != nil || string(got[:n]) != want {
			t.Errorf("the manager got %q, %v; want %q", got[:n], err, want)
		}
	}
	expect("READY=1")
	if value, set := os.LookupEnv("NOTIFY_SOCKET"); set {
		t.Errorf("children of the agent have the socket %q", value)
	}
	if code := stop(); code != 0 {
		t.Errorf("got the exit code %d", code)
	}
	expect("STOPPING=1")
}
