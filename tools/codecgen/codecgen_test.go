package codecgen

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write the generated files again")

// TestGeneratedFiles_AreCurrent compares the codecs of structs, and the list of structs that tests use, with
// their source.
func TestGeneratedFiles_AreCurrent(t *testing.T) {
	root := filepath.Join("..", "..")
	dir := filepath.Join(root, "structs")
	codecs, err := Generate(dir, Hot)
	if err != nil {
		t.Fatal(err)
	}
	list, err := List(root, WirePackages, "codec_test")
	if err != nil {
		t.Fatal(err)
	}
	compareFile(t, filepath.Join(dir, File), codecs)
	compareFile(t, filepath.Join(root, "internal", "codec", "all_gen_test.go"), list)
}

func compareFile(t *testing.T, path string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s differs from its source (%v); run `make goldens`", path, err)
	}
}

// generate writes the codec of the struct T of a package of one file.
func generate(t *testing.T, source string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	source = "package x\n\nimport \"time\"\n\nvar _ time.Time\n\n" + source
	if err := os.WriteFile(filepath.Join(dir, "x.go"), []byte(source), 0o644); err != nil {
		t.Fatal(err)
	}
	b, err := Generate(dir, []string{"T"})
	return string(b), err
}

func TestGenerate_RejectsStructsThatTheHandleSeesOtherwise(t *testing.T) {
	for source, want := range map[string]string{
		"type U struct{}": "T is no exported struct",
		"type T int":      "T is no exported struct",
		"type T struct { t }\ntype t struct { A int }":                               "T embeds x.t",
		"type T struct { *U }\ntype U struct { A int }":                              "T embeds *x.U",
		"type T struct { U }\ntype U struct { A int }":                               "T: it embeds U, which has no codec",
		"type T struct { U; V }\ntype U struct { A int }\ntype V struct { A int }":   `U.A and V.A are both "A"`,
		"type T struct { A int }\nfunc (T) MarshalBinary() ([]byte, error)":          "T has methods that encode it",
		"type T struct { A int }\nfunc (*T) CodecMissingField(f []byte, v any) bool": "T has methods that encode it",
		"type T struct { E U `json:\",omitempty\"` }\ntype U struct { A int }":       "T: E: an empty x.U is not known",
		"type T struct { E time.Time `json:\",omitempty\"` }":                        "T: E: an empty time.Time is not known",
		"type T struct { _struct bool `codec:\",toarray\"`; A int }":                 "T has options for all its fields",
		"type T struct { A int `codec:\"B\"`; B int }":                               `A and B are both "B"`,
	} {
		if _, err := generate(t, source); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n got %v\nwant %s", source, err, want)
		}
	}
}

func TestGenerate_LeavesOtherTypesToTheHandle(t *testing.T) {
	for field, declared := range map[string]string{
		"[]byte": "", "[4]int": "", "float32": "", "any": "", "uintptr": "", "*int": "", "[]int": "",
		"struct{ A int }": "", "map[int]string": "", "map[string]bool": "", "map[int]int": "",
		"map[string]*int": "", "map[string]F": "type F float64", "F": "type F float64", "map[string]T": "",
		"[][]T":   "",
		"Unknown": "", "[]*chan T": "", "G[int]": "type G[E any] struct { A E }",
		"U": "type U struct { A int }", "*U": "type U struct { A int }", "[]*U": "type U struct { A int }",
		"N": "type N bool", "O": "type O int\nfunc (*O) UnmarshalBinary(b []byte) error",
		"P": "type P string\nfunc (P) CodecEncodeSelf(*int)", "[]P": "type P string",
	} {
		src, err := generate(t, "type T struct { A "+field+" }\n"+declared)
		if err != nil {
			t.Errorf("%s: %v", field, err)
		}
		for _, want := range []string{"wire.AppendOther(b, &v.A)", "wire.ReadOther(b, &v.A)"} {
			if !strings.Contains(src, want) {
				t.Errorf("%s: the codec lacks %s:\n%s", field, want, src)
			}
		}
	}
}

func TestGenerate_LeavesOutFieldsThatGoOverNoWire(t *testing.T) {
	src, err := generate(t, "type T struct { A int; b chan int; C func(); D chan int `json:\"-\"`; "+
		"E int `json:\"-\" codec:\"e\"` }\ntype u struct{}")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"n := uint32(2)", `"\xa1A"`, `"\xa1e"`} {
		if !strings.Contains(src, want) {
			t.Errorf("the codec lacks %s:\n%s", want, src)
		}
	}
}
