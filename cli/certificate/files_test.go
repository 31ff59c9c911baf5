package certificate

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"berth/structs"
)

func TestCreateFiles_CreatesAKeyForItsOwnerAlone(t *testing.T) {
	before := unix.Umask(0)
	t.Cleanup(func() { unix.Umask(before) })
	path := filepath.Join(t.TempDir(), "key.pem")
	err := createFiles([]newFile{{path, modeKey, []byte("x")}})
	if err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("got %v, %v", info, err)
	}
}

func TestCreateFiles_FollowsNoLink(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "key.pem")
	target := filepath.Join(dir, "elsewhere")
	err := os.Symlink(target, link)
	if err != nil {
		t.Fatal(err)
	}
	err = createFiles([]newFile{{link, modeKey, []byte("x")}})
	if !structs.IsKind(err, structs.KindConflict) {
		t.Errorf("got %v", err)
	}
	_, err = os.Stat(target)
	if !os.IsNotExist(err) {
		t.Errorf("the target of the link: %v", err)
	}
}
