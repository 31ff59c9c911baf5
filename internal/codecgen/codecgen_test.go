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

// TestWhatIsGeneratedIsCurrent holds the codecs of structs, and the list of them that tests go over, against
// their source.
func TestWhatIsGeneratedIsCurrent(t *testing.T) {
	dir := filepath.Join("..", "..", "structs")
	codecs, err := Generate(dir)
	if err != nil {
		t.Fatal(err)
	}
	list, err := List(dir, "berth/structs", "codec_test")
	if err != nil {
		t.Fatal(err)
	}
	hold(t, filepath.Join(dir, File), codecs)
	hold(t, filepath.Join("..", "codec", "all_gen_test.go"), list)
}

func hold(t *testing.T, path string, want []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if got, err := os.ReadFile(path); err != nil || !bytes.Equal(got, want) {
		t.Errorf("%s is not what its source says (%v); run `make goldens`", path, err)
	}
}

// generate writes the codecs of a package of one file.
func generate(t *testing.T, source string) (string, error) {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "x.go"), []byte("package x\n\nimport \"time\"\n\nvar _ time.Time\n\n"+source), 0o644); err != nil {
		t.Fatal(err)
	}
	b, err := Generate(dir)
	return string(b), err
}

// TestWhatIsNotKnownIsRefused: a codec that would write something else than reflection is not written.
func TestWhatIsNotKnownIsRefused(t *testing.T) {
	for source, want := range map[string]string{
		"type T struct { C chan int }":                                                   "T.C: no codec for chan int",
		"type T struct { B []byte }":                                                     "T.B: no codec for bytes",
		"type T struct { A [4]int }":                                                     "T.A: no codec for [4]int",
		"type T struct { I interface{ M() } }":                                           "T.I: no codec for",
		"type T struct { M map[int]string }":                                             "T.M: no codec for map[int]string",
		"type T struct { F float32 }":                                                    "T.F: no codec for float32",
		"type T struct { S struct{ A int } }":                                            "T.S: no codec for struct",
		"type T struct { U Unknown }":                                                    "T.U: no codec for invalid type",
		"type T struct { t }\ntype t struct { A int }":                                   "T embeds x.t",
		"type T struct { *U }\ntype U struct { A int }":                                  "T embeds *x.U",
		"type T struct { U; V }\ntype U struct { A int }\ntype V struct { A int }":       `U.A and V.A are both "A"`,
		"type T struct { A int }\nfunc (T) MarshalBinary() ([]byte, error)":              "T writes itself",
		"type T struct { E U `json:\",omitempty\"` }\ntype U struct { A int }":           "T.E: no idea when a x.U is empty",
		"type T struct { E time.Time `json:\",omitempty\"` }":                            "T.E: no idea when a time.Time is empty",
		"type T struct { N named }\ntype named []byte":                                   "T.N: no codec for bytes",
		"type T struct { N U }\ntype U int\nfunc (*U) UnmarshalBinary(b []byte) error":   "T.N: x.U writes itself",
		"type T struct { N []U }\ntype U string\nfunc (U) CodecEncodeSelf(*int)":         "T.N: x.U writes itself",
		"type T struct { _struct bool `codec:\",toarray\"`; A int }":                     "T has options for all its fields",
		"type T struct { A int `codec:\"B\"`; B int }":                                   `A and B are both "B"`,
		"type T struct { G G[int] }\ntype G[E any] struct { A E }":                       "T.G: no codec for x.G[int]",
		"type T struct { A int }\nfunc (*T) CodecMissingField(f []byte, v any) bool":     "T writes itself",
		"type T struct { M map[string]*chan int }":                                       "T.M: no codec for chan int",
		"type T struct { P **U }\ntype U struct { A int }\ntype V struct { P []chan U }": "V.P: no codec for chan x.U",
	} {
		if _, err := generate(t, source); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n got %v\nwant %s", source, err, want)
		}
	}
}

func TestWhatGoesOverNoWire(t *testing.T) {
	src, err := generate(t, "type T struct { A int; b chan int; C func(); D chan int `json:\"-\"`; E int `json:\"-\" codec:\"e\"` }\ntype u struct{}")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"n := uint32(2)", `"\xa1A"`, `"\xa1e"`} {
		if !strings.Contains(src, want) {
			t.Errorf("no %s in\n%s", want, src)
		}
	}
}
