package external

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"berth/client/drivers/driver"
	"berth/internal/logfile"
)

// namedPipes is a node whose driver finds the pipes of the output by their names among the logs.
func namedPipes(t *testing.T) *fixture {
	f := newFixture(t)
	f.plugin.Set("pipes", "logs")
	return f
}

func TestLogs_OfADriverThatLooksForThePipesAmongTheLogs(t *testing.T) {
	t.Parallel()
	f := namedPipes(t)
	a := f.agent()
	cfg := f.task("a1", "echo up; echo oops >&2")
	for _, want := range []string{"up\n", "up\nup\n"} { // the second start replaces the names
		a.start(cfg)
		a.wait(cfg.ID)
		a.destroy(cfg.ID)
		f.awaitOutput(cfg, want)
	}
	text, err := os.ReadFile(filepath.Join(cfg.Dirs.Logs, "web.stderr.0"))
	if err != nil || string(text) != "oops\noops\n" {
		t.Errorf("stderr has %q, %v", text, err)
	}
}

// The task changes its logs while it runs. Its later output arrives, also after its next start, and the file
// of the host stays as it is.
func TestLogs_OfATaskThatChangesTheNamesOfThePipes(t *testing.T) {
	t.Parallel()
	host := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(host, []byte("of the host"), 0o600); err != nil {
		t.Fatal(err)
	}
	const name = ".web.stdout.fifo"
	changes := map[string]func(logs string) error{
		"removed": func(logs string) error { return os.Remove(filepath.Join(logs, name)) },
		"link to the host": func(logs string) error {
			link := filepath.Join(logs, "link")
			err := os.Symlink(host, link)
			if err == nil {
				err = os.Rename(link, filepath.Join(logs, name))
			}
			return err
		},
		"another pipe": func(logs string) error {
			err := os.Remove(filepath.Join(logs, name))
			if err == nil {
				err = unix.Mkfifo(filepath.Join(logs, name), 0o666)
			}
			return err
		},
		"the directory is a link": func(logs string) error {
			err := os.RemoveAll(logs)
			if err == nil {
				err = os.Symlink(filepath.Dir(host), logs)
			}
			return err
		},
	}
	for what, change := range changes {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			f := namedPipes(t)
			a := f.agent()
			cfg := f.task("a1", loops+"; echo bye")
			a.start(cfg)
			f.awaitOutput(cfg, "up\n")
			if err := change(cfg.Dirs.Logs); err != nil {
				t.Fatal(err)
			}
			f.end(cfg)
			a.wait(cfg.ID)
			a.destroy(cfg.ID)
			a.start(cfg)
			a.wait(cfg.ID)
			a.destroy(cfg.ID)
			f.wantEnd(cfg, "bye\nup\nbye\n")
			text, err := os.ReadFile(host)
			if err != nil || string(text) != "of the host" {
				t.Errorf("the file of the host has %q, %v", text, err)
			}
		})
	}
}

// wantEnd checks the end of the output: a task that removes its logs loses the part before.
func (f *fixture) wantEnd(cfg *driver.TaskConfig, want string) {
	f.t.Helper()
	all, err := logfile.Open(f.t.Context(), logfile.Options{
		Dir:  cfg.Dirs.Logs,
		Task: cfg.Task,
		Kind: logfile.Stdout,
	})
	if err != nil {
		f.t.Fatal(err)
	}
	defer func() { _ = all.Close() }()
	text, err := io.ReadAll(all)
	if err != nil || !strings.HasSuffix(string(text), want) {
		f.t.Errorf("the output is %q, %v, want %q at its end", text, err, want)
	}
}

// Most drivers open the pipes by their paths. A task cannot stop their starts.
func TestLogs_OfADriverThatNeedsNoNames(t *testing.T) {
	t.Parallel()
	f := newFixture(t)
	a := f.agent()
	cfg := f.task("a1", "echo up")
	err := os.MkdirAll(filepath.Join(cfg.Dirs.Logs, ".web.stdout.fifo", "below"), 0o700)
	if err != nil {
		t.Fatal(err)
	}
	a.start(cfg)
	a.wait(cfg.ID)
	a.destroy(cfg.ID)
	f.awaitOutput(cfg, "up\n")
}

func TestPipes_LinkFollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	host := filepath.Join(dir, "host")
	logs := filepath.Join(dir, "logs")
	p := pipes{stdout: filepath.Join(dir, "out"), stderr: filepath.Join(dir, "err")}
	for _, path := range []string{p.stdout, p.stderr} {
		if err := unix.Mkfifo(path, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	err := os.Mkdir(host, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(host, "out"), []byte("of the host"), 0o600)
	}
	if err == nil {
		err = os.Symlink(host, logs)
	}
	if err == nil {
		err = p.link(logs)
	}
	if err != nil {
		t.Fatal(err)
	}
	if info, err := os.Lstat(filepath.Join(host, "out")); err != nil || !info.Mode().IsRegular() {
		t.Errorf("the file of the host is %v, %v", info, err)
	}
	for _, path := range []string{p.stdout, p.stderr} {
		pipe, err := os.Lstat(path)
		if err != nil {
			t.Fatal(err)
		}
		named, err := os.Lstat(filepath.Join(logs, filepath.Base(path)))
		if err != nil || !os.SameFile(pipe, named) {
			t.Errorf("%s has no other name among the logs: %v", path, err)
		}
	}
}
