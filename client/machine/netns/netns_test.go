package netns

import (
	"errors"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"berth/test/kit"
)

func needRoot(t *testing.T) {
	t.Helper()
	if os.Getuid() != 0 {
		kit.SkipLacking(t, "root")
	}
}

// temporary returns a path for a namespace, which is removed at the end of the test.
func temporary(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "ns")
	t.Cleanup(func() {
		if err := Remove(path); err != nil {
			t.Error(err)
		}
	})
	return path
}

// inode returns the identity of the network namespace of the calling thread.
func inode(t *testing.T) uint64 {
	t.Helper()
	var st unix.Stat_t
	if err := unix.Stat("/proc/thread-self/ns/net", &st); err != nil {
		t.Error(err)
	}
	return st.Ino
}

func TestMake_HasLoopbackAlone(t *testing.T) {
	needRoot(t)
	path := temporary(t)
	if IsLive(path) {
		t.Error("a missing file is a namespace")
	}
	if err := Make(path); err != nil {
		t.Fatal(err)
	}
	if !IsLive(path) {
		t.Error("the file has no namespace")
	}
	outside := inode(t)
	err := Do(path, func() error {
		if inode(t) == outside {
			t.Error("Do stays outside")
		}
		all, err := net.Interfaces()
		if err != nil || len(all) != 1 || all[0].Name != "lo" || all[0].Flags&net.FlagUp == 0 {
			t.Errorf("interfaces %+v, %v", all, err)
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
	if inode(t) != outside {
		t.Error("the test has left its namespace")
	}
	if err := Make(path); !errors.Is(err, fs.ErrExist) {
		t.Errorf("a second namespace in one file: %v", err)
	}
}

func TestRemove_TakesDownEachPart(t *testing.T) {
	needRoot(t)
	for name, make := range map[string]func(path string) error{
		"nothing":           func(string) error { return nil },
		"the file alone":    func(path string) error { return os.WriteFile(path, nil, 0o444) },
		"a namespace":       Make,
		"two on one file":   func(path string) error { return errors.Join(Make(path), bindSelf(path)) },
		"one that is gone":  func(path string) error { return errors.Join(Make(path), Remove(path)) },
		"after an umount":   func(path string) error { return errors.Join(Make(path), unix.Unmount(path, 0)) },
		"a file with bytes": func(path string) error { return os.WriteFile(path, []byte("x"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			path := temporary(t)
			if err := make(path); err != nil {
				t.Fatal(err)
			}
			if err := Remove(path); err != nil {
				t.Error(err)
			}
			if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the file is left: %v", err)
			}
		})
	}
}

func bindSelf(path string) error {
	return unix.Mount("/proc/thread-self/ns/net", path, "", unix.MS_BIND, "")
}

func TestDo_NamesAMissingNamespace(t *testing.T) {
	needRoot(t)
	plain := filepath.Join(t.TempDir(), "plain")
	if err := os.WriteFile(plain, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{plain, plain + ".missing"} {
		err := Do(path, func() error {
			t.Error("called")
			return nil
		})
		if err == nil {
			t.Errorf("%s: no error", path)
		}
	}
}
