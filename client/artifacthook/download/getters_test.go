package download

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/hashicorp/go-getter/v2"
)

// TestGitGetter_GivesGitNoOption: the text after git:: is an option of git that executes a program.
func TestGitGetter_GivesGitNoOption(t *testing.T) {
	hostile := []string{
		"git::--upload-pack=touch$IFS",
		"git::-u",
		"git::ssh://-oProxyCommand=id/r",
		"git::ssh://-oProxyCommand=id@h/r",
	}
	g := newGuard(nil)
	check := func(source string, mode getter.Mode) {
		dir := t.TempDir()
		client := &getter.Client{Getters: getters(&Request{}, g), DisableSymlinks: true}
		_, err := client.Get(t.Context(), &getter.Request{
			Src:     source,
			Dst:     filepath.Join(dir, Out),
			GetMode: mode,
		})
		if err == nil || !strings.Contains(err.Error(), "must have a protocol and a host") {
			t.Errorf("%s: got %v", source, err)
		}
		left, err := os.ReadDir(dir)
		if err != nil || len(left) != 0 {
			t.Errorf("%s: left are %v, %v", source, left, err)
		}
	}
	for _, source := range hostile {
		check(source, getter.ModeDir)
		check(source, getter.ModeFile)
	}
}
