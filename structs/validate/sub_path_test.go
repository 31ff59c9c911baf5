package validate

import (
	"strings"
	"testing"

	"berth/structs"
)

func TestCheck_TakesOnlyFoldersInsideTheVolume(t *testing.T) {
	long := strings.Repeat("x", maxFolderName)
	for path, want := range map[string]string{
		"data":                            "",
		"data/pg":                         "",
		"..data/pg..":                     "",
		"a b/ü":                           "",
		long + "/y":                       "",
		strings.Repeat("a/", 2047) + "a":  "",
		strings.Repeat("a/", 2047) + "aa": "more than 4095",
		long + "x":                        "a name of 256 bytes",
		"":                                `has the part ""`,
		"/data":                           "is absolute",
		"data/":                           `has the part ""`,
		"data//pg":                        `has the part ""`,
		"./data":                          `has the part "."`,
		"data/../../etc":                  `has the part ".."`,
		"..":                              `has the part ".."`,
		"data\x00pg":                      "zero byte",
	} {
		err := SubPath(path)
		if want == "" && err != nil {
			t.Errorf("%.20q: %v", path, err)
		}
		if want != "" && (!structs.IsKind(err, structs.KindInvalid) || !strings.Contains(err.Error(), want)) {
			t.Errorf("%.20q: got %v, want %q", path, err, want)
		}
	}
}
