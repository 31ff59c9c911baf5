package api_test

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/api"
	"berth/internal/logfile"
	"berth/test/kit"
)

// TestFiles_NameNoPathOfTheHost: the task puts something else in the place of each directory, and the users
// of the API learn nothing of the node from the errors.
func TestFiles_NameNoPathOfTheHost(t *testing.T) {
	for name, replace := range map[string]func(t *testing.T, path string){
		"nothing": func(*testing.T, string) {},
		"a file":  func(t *testing.T, path string) { kit.Must(t, os.WriteFile(path, []byte("x"), 0o600)) },
		"a link":  func(t *testing.T, path string) { kit.Must(t, os.Symlink(t.TempDir(), path)) },
		"a loop":  func(t *testing.T, path string) { kit.Must(t, os.Symlink(path, path)) },
		"a pipe":  func(t *testing.T, path string) { kit.Must(t, unix.Mkfifo(path, 0o600)) },
		"a socket": func(t *testing.T, path string) {
			kit.Must(t, unix.Mknod(path, unix.S_IFSOCK|0o600, 0))
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := newServer(t)
			host := t.TempDir()
			dir := filepath.Join(host, "alloc")
			s.agent.Files = func(string) (api.Dir, error) { return api.Dir{Path: dir}, nil }
			s.agent.Logs = func(string, string, string) (string, error) { return filepath.Join(dir, "logs"), nil }
			replace(t, dir)
			checkReplaced(t, s, host)
			kit.Must(t, os.RemoveAll(dir))
			kit.Must(t, os.Mkdir(dir, 0o755))
			replace(t, filepath.Join(dir, "logs"))
			checkReplaced(t, s, host)
			kit.Must(t, os.RemoveAll(filepath.Join(dir, "logs")))
			kit.Must(t, os.Mkdir(filepath.Join(dir, "logs"), 0o755))
			replace(t, filepath.Join(dir, "logs", logfile.Name("t", "stdout", 0)))
			checkReplaced(t, s, host)
		})
	}
}

// checkReplaced checks the answers of all routes that lead to the first file of a log.
func checkReplaced(t *testing.T, s *server, host string) {
	t.Helper()
	for _, route := range []string{
		"ls/here?path=logs/t.stdout.0",
		"ls/here?path=logs/t.stdout.0/below",
		"stat/here?path=logs/t.stdout.0/below",
		"cat/here?path=logs/t.stdout.0",
		"cat/here?path=logs/t.stdout.0/below",
		"readat/here?path=logs/t.stdout.0/below&offset=0&limit=9",
		"stream/here?path=logs/t.stdout.0/below&follow=false",
		"logs/here?task=t&type=stdout",
		"logs/here?task=t&type=stdout&origin=end&lines=3&plain=true",
	} {
		resp, body := s.do(t, "GET", "/v1/client/fs/"+route, "")
		if strings.Contains(body, host) {
			t.Errorf("%s names a path of the host: %d %q", route, resp.StatusCode, body)
		}
		if resp.StatusCode >= http.StatusInternalServerError {
			t.Errorf("%s: got %d %q", route, resp.StatusCode, body)
		}
	}
}

func TestLogs_OfAReplacedDirectoryAreNotFound(t *testing.T) {
	s := newServer(t)
	dir := writeLogs(t, s, "one\n")
	kit.Must(t, os.Rename(dir, dir+".old"))
	kit.Must(t, os.Symlink(dir+".old", dir))
	resp, body := s.do(t, "GET", "/v1/client/fs/logs/here?task=t&type=stdout", "")
	if resp.StatusCode != http.StatusNotFound || !strings.Contains(body, "the task put something else in its place") {
		t.Errorf("got %d %q", resp.StatusCode, body)
	}
}
