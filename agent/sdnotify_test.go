package agent

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSend_TellsTheManagerOnce(t *testing.T) {
	for _, socket := range []string{
		filepath.Join(t.TempDir(), "notify"),
		fmt.Sprintf("@berth-sdnotify-%d", os.Getpid()),
	} {
		conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: socket, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv(variable, socket)
		m := takeManager()
		if value, set := os.LookupEnv(variable); set {
			t.Errorf("children have the socket %q", value)
		}
		err = m.Send(Ready)
		if err != nil {
			t.Fatal(err)
		}
		got := make([]byte, 64)
		n, err := conn.Read(got)
		if err != nil || string(got[:n]) != "READY=1" {
			t.Errorf("%s: the manager got %q, %v", socket, got[:n], err)
		}
		_ = conn.Close() // of the test
	}
}

func TestSend_WithoutAManagerDoesNothing(t *testing.T) {
	t.Setenv(variable, "")
	if err := takeManager().Send(Stopping); err != nil {
		t.Error(err)
	}
}

func TestSend_NamesTheStateThatNobodyTakes(t *testing.T) {
	m := serviceManager{socket: filepath.Join(t.TempDir(), "none")}
	err := m.Send(Stopping)
	if err == nil || !strings.HasPrefix(err.Error(), "STOPPING=1 to the service manager: ") {
		t.Errorf("got %v", err)
	}
}
