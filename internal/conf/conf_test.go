package conf

import (
	"errors"
	"fmt"
	"path"
	"runtime"
	"strings"
	"testing"
	"time"

	"berth/structs"
)

type size int64

func (s *size) UnmarshalText(b []byte) error {
	if string(b) != "1KiB" {
		return errors.New("not a size")
	}
	*s = 1024
	return nil
}

type inner struct {
	Name   string `hcl:",label"`
	Depth  uint8  `hcl:"depth"`
	Parent *inner `hcl:"parent,block"`
}

type common struct {
	Level string `hcl:"level"`
}

type sample struct {
	common
	Name     string            `hcl:"name,required"`
	Count    *int              `hcl:"count"`
	Ratio    float64           `hcl:"ratio"`
	On       bool              `hcl:"on"`
	Wait     time.Duration     `hcl:"wait"`
	Size     size              `hcl:"size"`
	List     []string          `hcl:"list"`
	Meta     map[string]string `hcl:"meta"`
	Config   map[string]any    `hcl:"config"`
	One      *plain            `hcl:"one,block"`
	Here     plain             `hcl:"here,block"`
	Many     []*inner          `hcl:"many,block"`
	Keyed    map[string]*inner `hcl:"keyed,block"`
	Untagged int
}

func (sample) Unsupported() string { return "later" }

func (sample) Rejected() map[string]string { return map[string]string{"never": "leave it out"} }

func (sample) Ignored() map[string]string { return map[string]string{"former": "it was too slow"} }

type plain struct {
	A    int    `hcl:"a"`
	Kept string `hcl:"kept"`
}

const nativeSample = `
level = "debug"
name  = "x"
count = 3
ratio = 0.5
on    = true
wait  = "1m30s"
size  = "1KiB"
list  = ["a", "b"]
meta {
  k = "v"
  n = 4
}
config {
  n    = 7
  list = [1, "two", null]
  mount { type = "bind" }
  mount { type = "tmpfs" }
  label "x" "y" { z = true }
}
one { a = 1 }
here { a = 2 }
many "m1" { depth = 1 }
many "m2" { depth = 2 }
keyed "k" {
  depth = 3
}
`

const jsonSample = `{
  "//": "a comment", "level": "debug", "name": "x", "count": 3, "ratio": 0.5, "on": true, "wait": 90000000000,
  "size": "1KiB", "list": ["a", "b"], "meta": {"k": "v", "n": 4},
  "config": {"n": 7, "list": [1, "two", null], "mount": [{"type": "bind"}, {"type": "tmpfs"}],
    "label": [{"x": [{"y": [{"z": true}]}]}]},
  "one": {"a": 1}, "here": {"a": 2},
  "many": [{"m1": {"depth": 1}}, {"m2": {"depth": 2}}], "keyed": {"k": {"depth": 3}}
}`

func TestDecode_ReadsEveryType(t *testing.T) {
	for file, src := range map[string]string{"a.hcl": nativeSample, "a.json": jsonSample} {
		t.Run(file, func(t *testing.T) {
			s := sample{Here: plain{Kept: "default"}}
			if err := Decode(file, []byte(src), &s, nil); err != nil {
				t.Fatal(err)
			}
			checkSample(t, &s)
		})
	}
}

func checkSample(t *testing.T, s *sample) {
	t.Helper()
	if s.Level != "debug" || s.Name != "x" || *s.Count != 3 || s.Ratio != 0.5 || !s.On ||
		s.Wait != 90*time.Second || s.Size != 1024 {
		t.Errorf("the primitives differ: %+v", s)
	}
	if strings.Join(s.List, ",") != "a,b" || s.Meta["k"] != "v" || s.Meta["n"] != "4" {
		t.Errorf("the collections differ: %+v", s)
	}
	mounts := s.Config["mount"].([]any)
	list := s.Config["list"].([]any)
	if s.Config["n"] != int64(7) || len(mounts) != 2 || mounts[1].(map[string]any)["type"] != "tmpfs" ||
		list[1] != "two" || list[2] != nil {
		t.Errorf("config differs: %+v", s.Config)
	}
	inner := s.Config
	for _, label := range []string{"label", "x", "y"} {
		inner = inner[label].([]any)[0].(map[string]any)
	}
	if inner["z"] != true {
		t.Errorf("the labels in config differ: %+v", s.Config)
	}
	if s.One.A != 1 || s.Here != (plain{A: 2, Kept: "default"}) || s.Many[1].Name != "m2" ||
		s.Many[1].Depth != 2 || s.Keyed["k"].Depth != 3 || s.Keyed["k"].Name != "k" {
		t.Errorf("the blocks differ: %+v", s)
	}
}

func TestDecode_KeepsTheValuesOfAbsentArguments(t *testing.T) {
	s := sample{Ratio: 2, List: []string{"d"}}
	if err := Decode("a.hcl", []byte("name = \"x\"\nratio = null\n"), &s, nil); err != nil {
		t.Fatal(err)
	}
	if s.Ratio != 2 || len(s.List) != 1 || s.Count != nil {
		t.Errorf("got %+v, want the values from before", s)
	}
}

func TestDecode_FaultsHavePositionAndExpectation(t *testing.T) {
	for _, c := range []struct{ file, src, want string }{
		{"a.hcl", "name = \"x\"\ncout = 1\n",
			`a.hcl:2,1: unsupported argument "cout" (did you mean "count"?); expected one of: level, name, count`},
		{"a.hcl", "name = \"x\"\nwhatever { }\n",
			`a.hcl:2,1: unsupported block "whatever"; expected one of: level,`},
		{"a.hcl", "name = \"x\"\nmany \"m\" {\n  dept = 1\n}\n",
			`a.hcl:3,3: unsupported argument "dept" (did you mean "depth"?); expected one of: depth, parent`},
		{"a.json", "{\"name\": \"x\",\n \"cout\": 1}",
			`a.json:2,2: unsupported argument "cout" (did you mean "count"?); expected one of: level`},
		{"a.json", "{\"name\": \"x\",\n \"many\": {\"m\": {\"dept\": 1}}}",
			`a.json:2,17: unsupported argument "dept"`},
		{"a.hcl", "count = 1\n", `missing argument "name"; expected a string`},
		{"a.json", "{}", `a.json:1,2: missing argument "name"; expected a string`},
		{"a.hcl", "name = [1]\n", `a.hcl:1,8: invalid value for "name": got a list; expected a string`},
		{"a.hcl", "name = \"x\"\ncount = \"many\"\n",
			`invalid value for "count": got a string; expected a whole number`},
		{"a.hcl", "name = \"x\"\ncount = 1.5\n", `got a fraction; expected a whole number`},
		{"a.hcl", "name = \"x\"\ncount = 1e999999999\n", `the number is out of range; expected a whole number`},
		{"a.hcl", "name = \"x\"\nratio = 1e999999999\n", `the number is out of range`},
		{"a.hcl", "name = \"x\"\nconfig { a = 1e999 }\n", `the number is out of range`},
		{"a.hcl", "name = \"x\"\nmany \"m\" { depth = 256 }\n", `the number is out of range`},
		{"a.hcl", "name = \"x\"\nmany \"m\" { depth = -1 }\n", `the number is out of range`},
		{"a.hcl", "name = \"x\"\non = \"perhaps\"\n", `got a string; expected true or false`},
		{"a.hcl", "name = \"x\"\nwait = \"3 weeks\"\n",
			`"3 weeks" is not a duration; expected a duration such as "30s"`},
		{"a.hcl", "name = \"x\"\nwait = true\n", `got true or false; expected a duration such as "30s"`},
		{"a.hcl", "name = \"x\"\nwait = 0.5\n", `got a number that is not whole nanoseconds; expected a duration`},
		{"a.hcl", "name = \"x\"\nsize = \"huge\"\n", `invalid value for "size": not a size`},
		{"a.hcl", "name = \"x\"\nlist = \"a\"\n", `got a string; expected a list, each element a string`},
		{"a.hcl", "name = \"x\"\nlist = [\"a\", {}]\n", `element 1: got a map; expected a string`},
		{"a.hcl", "name = \"x\"\nmeta = { k = [1] }\n", `"k": got a list; expected a string`},
		{"a.hcl", "name = \"x\"\nmeta = [1]\n", `got a list; expected a map, each value a string`},
		{"a.hcl", "name = \"x\"\nmeta \"l\" { }\n", `block "meta" has a label; expected meta { ... }`},
		{"a.hcl", "name = \"x\"\nmeta {\n  in { }\n}\n",
			`a.hcl:3,3: unsupported block "in"; expected in = a string`},
		{"a.hcl", "name = \"x\"\nmeta { }\nmeta { }\n", `a.hcl:3,1: duplicate "meta"; expected it once`},
		{"a.hcl", "name = \"x\"\none { }\none { }\n", `a.hcl:3,1: duplicate block "one"; expected it once`},
		{"a.hcl", "name = \"x\"\none = { a = 1 }\n", `"one" is a block; expected one { ... }`},
		{"a.hcl", "name = \"x\"\nmany = []\n", `"many" is a block; expected many "name" { ... }`},
		{"a.hcl", "name = \"x\"\nmany { }\n", `block "many" has 0 labels; expected many "name" { ... }`},
		{"a.hcl", "name = \"x\"\none \"l\" { }\n", `block "one" has 1 labels; expected one { ... }`},
		{"a.hcl", "name = \"x\"\ncount { }\n", `"count" is an argument; expected count = a whole number`},
		{"a.hcl", "name = \"x\"\nkeyed \"k\" { }\nkeyed \"k\" { }\n", `a.hcl:3,1: duplicate block keyed "k"`},
		{"a.hcl", "name = \"x\"\nlater { a = 1 }\n", `a.hcl:2,1: "later" is not supported by berth yet`},
		{"a.hcl", "name = \"x\"\nlater = true\n", `a.hcl:2,1: "later" is not supported by berth yet`},
		{"a.json", `{"name": "x", "later": {"a": 1}}`, `"later" is not supported by berth yet`},
		{"a.hcl", "name = \"x\"\nnever { a = 1 }\n", `a.hcl:2,1: "never" is not supported by berth: leave it out`},
		{"a.hcl", "name = \"x\"\nnever {}\n", `"never" is not supported by berth: leave it out`},
		{"a.hcl", "name = \"x\"\nnever = true\n", `"never" is not supported by berth: leave it out`},
		{"a.json", `{"name": "x", "never": [{"a": 1}]}`, `a.json:1,15: "never" is not supported by berth`},
		{"a.hcl", "name = \"x\"\nnever = var.x\n", `a.hcl:2,9: variables not allowed`},
		{"a.hcl", "name = \"x\"\nformer = var.x\n", `a.hcl:2,10: variables not allowed`},
		{"a.hcl", "name = \"x\"\nnever = false\n", ``},
		{"a.hcl", "name = \"x\"\nnever = null\nformer = 3\n", ``},
		{"a.hcl", "name = \"x\"\ncount = var.x\n", `a.hcl:2,9: variables not allowed`},
		{"a.hcl", "name = \"x\"\nconfig {\n  a {}\n}\n", ``},
		{"a.hcl", "name = \"x\"\nname = \"y\"\n", `a.hcl:2,1: attribute redefined`},
		{"a.hcl", "name = \n", `a.hcl:1,8: invalid expression`},
		{"a.json", "{", `a.json:1,2`},
		{"a.json", `{"name": "x", "one": 3}`, `a.json:1,`},
		{"a.hcl", "name = \"\xff\"", `a.hcl:1,1: the file is not text in UTF-8`},
		{"a.hcl", "x = " + strings.Repeat("(", 300), `a.hcl:1,255: the file nests too deep; expected at most 250 levels`},
		{"a.json", strings.Repeat("[", 300), `the file nests too deep`},
		{"a.hcl", "x = " + strings.Repeat("!", 1<<19), `too many "!"`},
		{"a.hcl", "x = 1" + strings.Repeat("+1", 1<<18), `too many "+"`},
		{"a.hcl", strings.Repeat("#", structs.MaxSource+1), `expected at most 1048576`},
	} {
		err := Decode(c.file, []byte(c.src), &sample{}, nil)
		switch {
		case c.want == "" && err != nil:
			t.Errorf("%.80q failed: %v", c.src, err)
		case c.want == "":
		case !structs.IsKind(err, structs.KindInvalid):
			t.Errorf("%.80q: got %v, want an invalid error", c.src, err)
		case !strings.Contains(err.Error(), c.want):
			t.Errorf("%.80q:\n got %s\nwant %s", c.src, err, c.want)
		}
	}
}

func TestDecode_ReportsEveryFault(t *testing.T) {
	err := Decode("a.hcl", []byte("cout = 1\nwait = 1.5\nnope { }\n"), &sample{}, nil)
	if n := len(strings.Split(err.Error(), "\n")); n != 4 {
		t.Errorf("got %d lines, want 4: %v", n, err)
	}
}

func TestDecode_FaultsShowNoSecret(t *testing.T) {
	for _, src := range []string{
		"name = \"x\"\nmeta = \"s3cret\"\n",
		"name = \"x\"\ncount = \"s3cret\"\n",
		"name = \"x\"\non = \"s3cret\"\n",
		"name = \"x\"\nmeta = { a = [\"s3cret\"] }\n",
		"name = \"x\"\nlist = [[\"s3cret\"]]\n",
		"name = \"x\"\nmeta = { a = \"s3cret\" + 1 }\n",
		"name = \"x\"\nmeta = { a = \"${[\"s3cret\"]}-x\" }\n",
	} {
		if err := Decode("a.hcl", []byte(src), &sample{}, nil); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%q: got %v, want an error without the secret", src, err)
		}
	}
}

func FuzzDecode(f *testing.F) {
	f.Add("a.hcl", []byte(nativeSample))
	f.Add("a.json", []byte(jsonSample))
	f.Add("a.hcl", []byte("name = \"${a[*].b}\"\nmeta = {for k, v in {a=1}: k => v...}\n%{ if true }"))
	f.Add("a.json", []byte(`{"many": [null, {"a": null}], "one": [], "keyed": {"k": []}}`))
	f.Fuzz(func(t *testing.T, file string, src []byte) {
		if err := Decode(file, src, &sample{}, nil); err != nil && !structs.IsKind(err, structs.KindInvalid) {
			t.Fatalf("got %v, want an invalid error", err)
		}
	})
}

func TestError_DoesNotGrowWithTheFile(t *testing.T) {
	var src strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&src, "%s%d = 1\n", strings.Repeat("x", 200), i)
	}
	err := Decode("a.hcl", []byte(src.String()), &struct{}{}, nil)
	if err == nil || len(err.Error()) > 20*300 || !strings.HasSuffix(err.Error(), "and 2980 more") {
		t.Errorf("got %d bytes, want a short error that ends with %q: %.3000v",
			len(fmt.Sprint(err)), "and 2980 more", err)
	}
}

// TestDecodeBody_WarnsOfIgnoredNames: such a name is no fault, and an empty value needs no warning.
func TestDecodeBody_WarnsOfIgnoredNames(t *testing.T) {
	for _, c := range []struct{ file, src, want string }{
		{"a.hcl", "name = \"x\"\nformer = 3\n", `a.hcl:2,1: "former" has no effect: it was too slow`},
		{"a.hcl", "name = \"x\"\nformer { a = b }\n", `a.hcl:2,1: "former" has no effect: `},
		{"a.json", `{"name": "x", "former": {"a": 1}}`, `a.json:1,15: "former" has no effect: `},
		{"a.hcl", "name = \"x\"\nformer = 0\n", ""},
		{"a.hcl", "name = \"x\"\nformer = 0.5\n", `a.hcl:2,1: "former" has no effect: `},
		{"a.hcl", "name = \"x\"\nformer = \"\"\n", ""},
		{"a.hcl", "name = \"x\"\nformer = []\n", ""},
		{"a.hcl", "name = \"x\"\nformer = null\n", ""},
		{"a.hcl", "name = \"x\"\nlater = false\n", ""},
		{"a.hcl", "name = \"x\"\nnever = \"\"\n", ""},
	} {
		body, diags := Parse(c.file, []byte(c.src))
		if diags.HasErrors() {
			t.Fatal(diags)
		}
		var s sample
		diags = DecodeBody(body, nil, &s)
		got := strings.Join(Warnings(diags), "\n")
		if err := Error(diags); err != nil || !strings.HasPrefix(got, c.want) || c.want == "" && got != "" {
			t.Errorf("%s: got %q, %v; want %q", c.src, got, err, c.want)
		}
	}
}

// The parsers take far more memory than the text of a file, so a file of many small parts is rejected before.
func TestDecode_RejectsAFileOfTooManyParts(t *testing.T) {
	cases := map[string][3]string{
		"objects.json":    {`{"a": [`, `{},`, `{}]}`},
		"lists.json":      {`{"a": [`, `[],`, `[]]}`},
		"elements.json":   {`{"a": [`, `0,`, `0]}`},
		"properties.json": {`{`, `"a":0,`, `"a":0}`},
		"blocks.hcl":      {"", "a{}\n", ""},
		"arguments.hcl":   {"", "a=1\n", ""},
		"objects.hcl":     {"a=[", "{},", "{}]"},
		"elements.hcl":    {"a=[", "0,", "0]"},
		"keys.hcl":        {"a={", "a:0\n", "}"},
		"calls.hcl":       {"a=[", "f()", "]"},
		"templates.hcl":   {`a="`, "${0}", `"`},
	}
	for name, c := range cases {
		src := []byte(c[0] + strings.Repeat(c[1], structs.MaxParts+1) + c[2])
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		err := Decode(name, src, &sample{}, nil)
		runtime.ReadMemStats(&after)
		if err == nil || !strings.Contains(err.Error(), "too many parts") {
			t.Errorf("%s: %.200v", name, err)
		}
		if used := after.TotalAlloc - before.TotalAlloc; path.Ext(name) == ".json" && used > 1<<20 {
			t.Errorf("%s: the rejection allocated %d bytes", name, used)
		}
	}
	text := `{"text": "` + strings.Repeat(`{[,\"`, structs.MaxParts) + `"}`
	if err := Decode("text.json", []byte(text), &sample{}, nil); err != nil && strings.Contains(err.Error(), "parts") {
		t.Errorf("brackets within a string count: %v", err)
	}
}
