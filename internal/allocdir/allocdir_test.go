package allocdir

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"berth/structs"
	"berth/structs/nodecalls"
	"berth/test/kit"
)

func TestMain(m *testing.M) {
	poll = 50 * time.Microsecond
	goleak.VerifyTestMain(m)
}

// secret is a text that no reader may get.
const secret = "SECRET of the host"

// fixture is the directory of an allocation with the task "web", beside a file of the host.
type fixture struct {
	t    *testing.T
	root string // of the allocation
	host string // a directory with the file "passwd"
	dir  *Dir
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	base := t.TempDir()
	fx := &fixture{t: t, root: filepath.Join(base, "a1"), host: filepath.Join(base, "host")}
	for _, dir := range []string{fx.host, fx.at("alloc/logs"), fx.at("web/local/sub"), fx.at("web/secrets")} {
		kit.Must(t, os.MkdirAll(dir, 0o755))
	}
	kit.Must(t, os.WriteFile(filepath.Join(fx.host, "passwd"), []byte(secret), 0o600))
	fx.write("web/secrets/token", secret)
	fx.write("web/local/file", "text\n")
	fx.write("web/local/sub/page.html", "<p>")
	kit.Must(t, os.Symlink("file", fx.at("web/local/link")))
	kit.Must(t, os.Symlink("../secrets/token", fx.at("web/local/to-secret")))
	kit.Must(t, os.Symlink("../secrets", fx.at("web/local/to-secrets")))
	kit.Must(t, os.Symlink(filepath.Join(fx.host, "passwd"), fx.at("web/local/absolute")))
	kit.Must(t, os.Symlink("../../../host/passwd", fx.at("web/local/relative")))
	kit.Must(t, os.Symlink("../../../host", fx.at("web/local/outside")))
	kit.Must(t, os.Symlink("loop", fx.at("web/local/loop")))
	kit.Must(t, os.Symlink("/proc/self/root", fx.at("web/local/magic")))
	kit.Must(t, unix.Mkfifo(fx.at("web/local/pipe"), 0o600))
	dir, err := Open(fx.root)
	kit.Must(t, err)
	t.Cleanup(func() { kit.Must(t, dir.Close()) })
	fx.dir = dir
	return fx
}

func (fx *fixture) at(path string) string { return filepath.Join(fx.root, path) }

func (fx *fixture) write(path, text string) {
	fx.t.Helper()
	kit.Must(fx.t, os.WriteFile(fx.at(path), []byte(text), 0o600))
}

// read returns the content of a file, or the error of its opening.
func (fx *fixture) read(path string) (string, error) {
	f, err := fx.dir.File(path)
	if err != nil {
		return "", err
	}
	defer closeRead(f)
	b, err := io.ReadAll(f)
	return string(b), err
}

func TestFile_StaysInTheAllocation(t *testing.T) {
	fx := newFixture(t)
	for path, want := range map[string]string{
		"web/local/file":                  "text\n",
		"/web/local/file":                 "text\n",
		"//web//local/./file":             "text\n",
		"web/local/sub/../file":           "text\n",
		"web/local/link":                  "text\n",
		"web/local/sub/page.html":         "<p>",
		"alloc/../web/local/sub/../file":  "text\n",
		"web/local/none":                  "not-found",
		"web/local/file/below":            "not-found",
		"web/local":                       "invalid",
		"":                                "invalid",
		"web/local/pipe":                  "invalid",
		"a\x00b":                          "invalid",
		strings.Repeat("a", 300):          "invalid",
		"..":                              "denied",
		"../host/passwd":                  "denied",
		"web/../../host/passwd":           "denied",
		"web/local/absolute":              "denied",
		"web/local/relative":              "denied",
		"web/local/outside/passwd":        "denied",
		"web/local/loop":                  "denied",
		"web/local/magic/etc/passwd":      "denied",
		"web/secrets/token":               "denied",
		"web/secrets":                     "invalid", // a directory, see below
		"web/local/to-secret":             "denied",
		"web/local/to-secrets/token":      "denied",
		"web/local/../secrets/./token":    "denied",
		"web/local/to-secrets/../nothing": "not-found",
	} {
		got, err := fx.read(path)
		if err != nil {
			got = string(structs.KindOf(err))
		}
		if path == "web/secrets" {
			want = "denied"
		}
		if got != want {
			t.Errorf("%q: got %q, %v, want %s", path, got, err, want)
		}
		if err != nil && strings.Contains(err.Error(), fx.root) {
			t.Errorf("%q: the error has a path of the host: %v", path, err)
		}
	}
}

func TestOpen_WithoutADirectory(t *testing.T) {
	fx := newFixture(t)
	if _, err := Open(fx.at("none")); !structs.IsKind(err, structs.KindNotFound) {
		t.Errorf("got %v, want not-found", err)
	}
	link := filepath.Join(fx.host, "a2")
	kit.Must(t, os.Symlink(fx.root, link))
	if _, err := Open(link); err == nil {
		t.Error("a link in place of the directory of an allocation is followed")
	}
}

// line describes a file in one line.
func line(f *nodecalls.AllocFileInfo) string {
	size := ""
	if f.ContentType != "" {
		size = " " + structs.FormatBytes(f.Size)
	}
	return f.FileMode + " " + f.Name + size + " " + f.ContentType
}

func TestList_DescribesFiles(t *testing.T) {
	fx := newFixture(t)
	files, err := fx.dir.List("/web/local")
	kit.Must(t, err)
	var got []string
	for _, f := range files {
		if f.ModTime.IsZero() || f.IsDir != (f.FileMode[0] == 'd') {
			t.Errorf("got %+v", f)
		}
		got = append(got, strings.TrimSpace(line(f)))
	}
	want := []string{
		"Lrwxrwxrwx absolute",
		"-rw------- file 5 B text/plain; charset=utf-8",
		"Lrwxrwxrwx link",
		"Lrwxrwxrwx loop",
		"Lrwxrwxrwx magic",
		"Lrwxrwxrwx outside",
		"prw------- pipe",
		"Lrwxrwxrwx relative",
		"drwxr-xr-x sub",
		"Lrwxrwxrwx to-secret",
		"Lrwxrwxrwx to-secrets",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s", strings.Join(got, "\n"))
	}
	for path, kind := range map[string]structs.Kind{
		"web/secrets":          structs.KindDenied,
		"web/local/to-secrets": structs.KindDenied,
		"web/local/outside":    structs.KindDenied,
		"..":                   structs.KindDenied,
		"web/local/file":       structs.KindInvalid,
		"web/none":             structs.KindNotFound,
	} {
		if files, err := fx.dir.List(path); !structs.IsKind(err, kind) {
			t.Errorf("%s: got %v, %v, want %s", path, files, err, kind)
		}
	}
}

func TestList_IsBounded(t *testing.T) {
	fx := newFixture(t)
	for i := range structs.MaxFilesListed + 1 {
		kit.Must(t, os.Mkdir(fx.at("alloc/logs/"+string(rune('a'+i%26))+structs.FormatBytes(int64(i))), 0o700))
	}
	_, err := fx.dir.List("alloc/logs")
	if !structs.IsKind(err, structs.KindPrecondition) {
		t.Errorf("got %v, want a precondition", err)
	}
}

func TestStat_DescribesOneFile(t *testing.T) {
	fx := newFixture(t)
	for path, want := range map[string]string{
		"/":                       "drwxr-xr-x a1 ",
		"web/local/":              "drwxr-xr-x local ",
		"web/local/link":          "-rw------- link 5 B text/plain; charset=utf-8",
		"web/local/sub/page.html": "-rw------- page.html 3 B text/html; charset=utf-8",
		"web/local/pipe":          "prw------- pipe ",
		"web/secrets":             "drwxr-xr-x secrets ",
		"web/secrets/token":       "denied",
		"web/local/to-secret":     "denied",
		"web/local/outside":       "denied",
		"web/none":                "not-found",
	} {
		f, err := fx.dir.Stat(path)
		got := string(structs.KindOf(err))
		if err == nil {
			got = line(f)
		}
		if got != want {
			t.Errorf("%s: got %q, %v, want %q", path, got, err, want)
		}
	}
}

// TestFile_IsFoundWithoutAnOpen: a device would see an open, and a pipe would block it.
func TestFile_IsFoundWithoutAnOpen(t *testing.T) {
	fx := newFixture(t)
	reader, err := unix.Open(fx.at("web/local/pipe"), unix.O_RDONLY|unix.O_NONBLOCK, 0)
	kit.Must(t, err)
	defer unix.Close(reader)
	if _, err := fx.read("web/local/pipe"); !structs.IsKind(err, structs.KindInvalid) {
		t.Errorf("a pipe with a reader: got %v, want invalid", err)
	}
	// The device number belongs to no driver: an open fails in another way than a rejection without one.
	kit.MakeDevice(t, fx.at("web/local/device"), unix.S_IFCHR|0o600, unix.Mkdev(511, 255))
	if _, err := fx.read("web/local/device"); !structs.IsKind(err, structs.KindInvalid) {
		t.Errorf("a device: got %v, want invalid", err)
	}
}

// TestFile_IsNotReadThroughAMount: a file system that is mounted in the allocation may never answer.
func TestFile_IsNotReadThroughAMount(t *testing.T) {
	fx := newFixture(t)
	err := unix.Mount("tmpfs", fx.at("web/local/sub"), "tmpfs", 0, "size=64k")
	if errors.Is(err, unix.EPERM) {
		t.Log("a mount needs root: this part is not tested")
		return
	}
	kit.Must(t, err)
	t.Cleanup(func() { kit.Must(t, unix.Unmount(fx.at("web/local/sub"), 0)) })
	fx.write("web/local/sub/inner", secret)
	if got, err := fx.read("web/local/sub/inner"); !structs.IsKind(err, structs.KindDenied) {
		t.Errorf("got %q, %v, want denied", got, err)
	}
	files, err := fx.dir.List("web/local")
	kit.Must(t, err)
	for _, f := range files {
		if f.Name == "sub" && line(f) != "d--------- sub " {
			t.Errorf("the mount is %q", line(f))
		}
	}
}

// TestSecrets_AreAsHiddenInAMount: the agent keeps the secrets of a task in memory, so their directory is a
// mount.
func TestSecrets_AreAsHiddenInAMount(t *testing.T) {
	fx := newFixture(t)
	err := unix.Mount("tmpfs", fx.at("web/secrets"), "tmpfs", 0, "size=64k,mode=0711")
	if errors.Is(err, unix.EPERM) {
		t.Log("a mount needs root: this part is not tested")
		return
	}
	kit.Must(t, err)
	t.Cleanup(func() { kit.Must(t, unix.Unmount(fx.at("web/secrets"), 0)) })
	fx.write("web/secrets/token", secret)
	for path, text := range map[string]string{
		"web/secrets":                "among the secrets",
		"web/secrets/token":          "among the secrets",
		"/web//local/../secrets/./x": "among the secrets",
		"web/local/to-secret":        "leads out",
		"web/local/to-secrets":       "leads out",
		"web/local/to-secrets/token": "leads out",
	} {
		got, err := fx.read(path)
		if !structs.IsKind(err, structs.KindDenied) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: read %q, %v, want denied: %s", path, got, err, text)
		}
		files, err := fx.dir.List(path)
		if !structs.IsKind(err, structs.KindDenied) {
			t.Errorf("%s: listed %v, %v, want denied", path, files, err)
		}
	}
	f, err := fx.dir.Stat("web/secrets")
	kit.Must(t, err)
	files, err := fx.dir.List("web")
	kit.Must(t, err)
	for _, f := range append(files, f) {
		if f.Name == "secrets" && line(f) != "drwx--x--x secrets " {
			t.Errorf("the directory of the secrets is %q", line(f))
		}
	}
	if f, err := fx.dir.Stat("web/secrets/token"); !structs.IsKind(err, structs.KindDenied) {
		t.Errorf("described as %v, %v, want denied", f, err)
	}
}

// TestDir_LeaksNothingWhileATaskSwapsFiles is the attack of a task: it exchanges a directory and a link to a
// directory of the host while a user lists, describes and reads 10,000 times.
func TestDir_LeaksNothingWhileATaskSwapsFiles(t *testing.T) {
	fx := newFixture(t)
	kit.Must(t, os.Mkdir(fx.at("web/local/inside"), 0o755))
	fx.write("web/local/inside/passwd", "of the task")
	stop := make(chan struct{})
	swapped := make(chan int)
	go func() {
		n := 0
		for ; !isClosed(stop); n++ {
			for _, link := range []string{"outside", "to-secrets"} {
				kit.Must(t, unix.Renameat2(unix.AT_FDCWD, fx.at("web/local/inside"),
					unix.AT_FDCWD, fx.at("web/local/"+link), unix.RENAME_EXCHANGE))
			}
		}
		swapped <- n
	}()
	outcomes := map[string]int{}
	leaked := func(text string) {
		if strings.Contains(text, "SECRET") || strings.Contains(text, "token") {
			t.Errorf("a reader got %q", text)
		}
	}
	for range 10_000 {
		text, err := fx.read("web/local/inside/passwd")
		leaked(text)
		outcomes["read "+string(structs.KindOf(err))]++
		files, err := fx.dir.List("web/local/inside")
		outcomes["list "+string(structs.KindOf(err))]++
		for _, f := range files {
			leaked(f.Name)
		}
		text, _ = fx.read("web/local/inside/token")
		leaked(text)
		f, err := fx.dir.Stat("web/local/inside/passwd")
		outcomes["stat "+string(structs.KindOf(err))]++
		if err == nil && f.Size != int64(len("of the task")) {
			t.Errorf("a user got %+v", f)
		}
	}
	close(stop)
	t.Log(<-swapped, "swaps", outcomes)
	if outcomes["read "] == 0 || outcomes["read denied"] == 0 {
		t.Errorf("the swaps and the reads did not meet: %v", outcomes)
	}
}

// FuzzDir checks that no path leads to the secret of the host or of a task.
func FuzzDir(f *testing.F) {
	for _, path := range []string{
		"/", "web/local/file", "../host/passwd", "web/local/outside/passwd", "web/local/to-secret",
		"web/secrets/token", "web/local/magic/proc/self/cwd", "a\x00b", "./web//local/../secrets/token",
	} {
		f.Add(path)
	}
	f.Fuzz(func(t *testing.T, path string) {
		fx := newFixture(t)
		b, err := fx.dir.File(path)
		if err == nil {
			text, _ := io.ReadAll(b)
			closeRead(b)
			if bytes.Contains(text, []byte("SECRET")) {
				t.Fatalf("%q leads to a secret", path)
			}
		}
		files, err := fx.dir.List(path)
		for _, f := range files {
			if f.Name == "passwd" || f.Name == "token" {
				t.Fatalf("%q lists %s", path, f.Name)
			}
		}
		if err != nil && structs.KindOf(err) == structs.KindInternal {
			t.Fatalf("%q: %v", path, err)
		}
		_, _ = fx.dir.Stat(path)
	})
}
