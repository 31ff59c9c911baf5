package hostconfig

import (
	"os"
	"path/filepath"
	"testing"
)

func TestWithin_FollowsLinks(t *testing.T) {
	dir := t.TempDir()
	link := filepath.Join(dir, "link")
	if err := os.Symlink(dir, link); err != nil {
		t.Fatal(err)
	}
	for path, good := range map[string]bool{dir: true, dir + "/x": true, dir + "x": false, "/etc": false} {
		for _, root := range []string{dir, link} {
			if err := within(root, path); (err == nil) != good {
				t.Errorf("%s in %s: %v", path, root, err)
			}
		}
	}
}
