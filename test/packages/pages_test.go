package packages

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"berth/test/kit"
)

// pageName is how a message of a program names a page of the documentation.
var pageName = regexp.MustCompile(`docs/[A-Za-z0-9_/-]+\.md`)

// checkPages looks in the programs of a release for the pages that their messages name, such as a remedy of
// berth doctor. The package has them. It also has the examples and the page that its configuration names.
func checkPages(t *testing.T, dist string) {
	files := output(t, "dpkg-deb", "-c", deb(dist, "1"))
	has := func(path string) bool { return strings.Contains(files, " ."+path+"\n") }
	named := 0
	for _, name := range []string{"berth", "berth-convert"} {
		text, err := os.ReadFile(program(dist, name))
		kit.Must(t, err)
		for _, page := range pageName.FindAll(text, -1) {
			named++
			if path := "/usr/share/doc/berth/" + string(page); !has(path) {
				t.Errorf("%s names %s, and the package lacks %s", name, page, path)
			}
		}
	}
	if named < 10 {
		t.Errorf("the programs name %d pages", named)
	}

	config, err := os.ReadFile("../../packaging/berth.hcl")
	kit.Must(t, err)
	for _, path := range regexp.MustCompile(`/usr/share/doc/[^ ):]+`).FindAllString(string(config), -1) {
		if !has(path) {
			t.Errorf("/etc/berth/berth.hcl names %s, which the package lacks", path)
		}
	}
}
