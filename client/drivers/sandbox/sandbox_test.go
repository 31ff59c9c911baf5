package sandbox

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"berth/structs"
)

// The tests of the exec driver cover everything that needs a real sandbox.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func TestHostPaths_AreOfTheHost(t *testing.T) {
	dir := t.TempDir()
	for _, d := range []string{"usr", "etc/x"} {
		if err := os.MkdirAll(filepath.Join(dir, d), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Symlink("usr", dir+"/bin"); err != nil {
		t.Fatal(err)
	}
	links, binds, err := hostPaths(map[string]string{
		dir + "/bin":   "/bin",
		dir + "/usr":   "/usr",
		dir + "/etc/x": "/a",
		dir + "/lib32": "/lib32",
	})
	if err != nil || !reflect.DeepEqual(links, map[string]string{"/bin": "usr"}) {
		t.Fatalf("got the links %v, %v, want /bin to usr", links, err)
	}
	want := []Bind{
		{Source: dir + "/etc/x", Target: "/a", ReadOnly: true},
		{Source: dir + "/usr", Target: "/usr", ReadOnly: true},
	}
	if !reflect.DeepEqual(binds, want) {
		t.Fatalf("got the binds %+v, want %+v", binds, want)
	}
}

func TestFindProgram_LooksInThePath(t *testing.T) {
	dir := t.TempDir()
	for name, mode := range map[string]os.FileMode{"a/run": 0o644, "b/run": 0o755, "b/other": 0o755} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, nil, mode); err != nil {
			t.Fatal(err)
		}
	}
	path := strings.Join([]string{dir + "/a", dir + "/b", dir}, ":")
	p := Program{
		Driver: "exec",
		Where:  "here",
		Dir:    dir,
		Env:    []string{"A=b", "PATH=" + path},
	}
	for command, want := range map[string]string{
		"run":          "/b/run",
		"other":        "/b/other",
		"b/other":      "/b/other",
		"./b/run":      "/b/run",
		dir + "/b/run": "/b/run",
	} {
		p.Command = command
		got, err := p.findProgram()
		if err != nil || got != dir+want {
			t.Errorf("%s: got %q, %v, want %s", command, got, err, want)
		}
	}
	for _, command := range []string{"a", "no", "a/run", "b", "./b"} {
		p.Command = command
		got, err := p.findProgram()
		want := fmt.Sprintf("exec: command %q ", command)
		if !structs.IsKind(err, structs.KindInvalid) || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: got %q, %v, want an invalid command", command, got, err)
		}
	}
}

func TestRuntimeEnv_PassesOnRuntimeSettingsOnly(t *testing.T) {
	t.Setenv("GOTRACEBACK", "all")
	t.Setenv("SECRET", "x")
	t.Setenv("GOMAXPROCS", "64")
	env := strings.Join(RuntimeEnv(3), " ")
	if !strings.Contains(env, "GOTRACEBACK=all") || !strings.Contains(env, "GOMAXPROCS=3") ||
		strings.Contains(env, "SECRET") || strings.Contains(env, "64") {
		t.Errorf("got the environment %s, want only settings of the runtime", env)
	}
}
