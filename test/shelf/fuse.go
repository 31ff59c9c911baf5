package shelf

import (
	"io"
	"os"
	"os/exec"
	"strconv"
	"strings"

	"berth/test/kit"
)

// isFUSE reports whether a volume is a FUSE file system, with a server process for each mount: its name says
// so.
func isFUSE(id string) bool { return strings.HasPrefix(id, "shelf-fuse-") }

// publishFUSE mounts the file system of a volume. Its server ends with the mount, or with the plugin.
func (s *shelf) publishFUSE(id, to string) error {
	server := exec.Command(os.Args[0], kit.FUSEArg, to, "fine")
	server.Stderr = os.Stderr
	out, err := server.StdoutPipe()
	if err == nil {
		err = server.Start()
	}
	if err != nil {
		return err
	}
	_, err = io.ReadFull(out, make([]byte, 1)) // it has mounted
	go func() { _ = server.Wait() }()          // a test may kill it
	if err != nil {
		return err
	}
	err = os.WriteFile(s.path("vol", id, "target"), []byte(to), 0o600)
	if err != nil {
		return err
	}
	return os.WriteFile(s.path("vol", id, "server"), []byte(strconv.Itoa(server.Process.Pid)), 0o600)
}
