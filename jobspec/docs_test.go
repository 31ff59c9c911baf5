package jobspec

import (
	"encoding/json"
	"fmt"
	"os"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dustin/go-humanize"
	"github.com/hashicorp/hcl/v2"
	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"

	"berth/internal/conf"
	"berth/jobspec/functions"
	"berth/structs/defaults"
	"berth/structs/validate"
)

var (
	fenced     = regexp.MustCompile("(?s)```hcl\n(.*?)```")
	fencedJSON = regexp.MustCompile("(?s)```json\n(.*?)```")
)

// TestDocs_HaveValidExamples parses and validates every example of the pages.
func TestDocs_HaveValidExamples(t *testing.T) {
	for _, p := range pages() {
		text, err := os.ReadFile(p.file)
		if err == nil && p.guide != "" {
			var guide []byte
			guide, err = os.ReadFile(p.guide)
			text = append(text, guide...)
		}
		if err != nil {
			t.Fatal(err)
		}

		for _, e := range fenced.FindAllStringSubmatch(string(text), -1) {
			if _, err := p.read(p.whole(e[1])); err != nil {
				t.Errorf("%s has the example\n%s%v", p.file, e[1], err)
			}
		}
		for _, e := range fencedJSON.FindAllStringSubmatch(string(text), -1) { // a whole file
			if _, err := p.read(e[1]); err != nil {
				t.Errorf("%s has the example\n%s%v", p.file, e[1], err)
			}
		}
	}
}

// TestDocs_DescribeEveryBlock checks that every argument and block of both formats has a meaning, and
// that the text of a block has an example with it.
func TestDocs_DescribeEveryBlock(t *testing.T) {
	for _, p := range pages() {
		for _, s := range p.sections(t) {
			for _, r := range s.rows {
				if r.meaning == "" {
					t.Errorf("%s: in the section of `%s`, `%s` has no meaning: write it in the last column",
						p.file, s.name, r.name)
				}
			}
			example, ok := s.example()
			if !ok || s.name != outermost && blockNamed(t, p.whole(example), s.name) == nil {
				t.Errorf("%s: the section of `%s` has no example with this block: write one below its table",
					p.file, s.name)
			}
		}
	}
}

// TestDocs_HaveTheDefaultsOfTheCode sets each argument in the example of its block to its default, if the
// column begins with one. The result is the same as without the argument.
func TestDocs_HaveTheDefaultsOfTheCode(t *testing.T) {
	tried := 0
	for _, p := range pages() {
		for _, s := range p.sections(t) {
			for _, r := range s.rows {
				m := regexp.MustCompile("^`([^`]+)`").FindStringSubmatch(r.defaultText)
				if m == nil {
					continue
				}
				tried++
				without := p.mustRead(t, s, r.name, "")
				with := p.mustRead(t, s, r.name, m[1])
				if without != with {
					t.Errorf("%s: the default of `%s` in `%s` is not %s: without it\n%s\nwith it\n%s",
						p.file, r.name, s.name, m[1], without, with)
				}
			}
		}
	}
	if tried < 40 {
		t.Errorf("found %d defaults", tried)
	}
}

var (
	rangeBound = regexp.MustCompile("^`([^`]+)` to `([^`]+)`$")
	mostBound  = regexp.MustCompile("^at most `([^`]+)`$")
	bytesBound = regexp.MustCompile(`^([0-9,]+) bytes$`)
)

// TestDocs_HaveTheBoundsOfTheCode sets each argument in the example of its block to its bounds, if the column
// has the form of a range or of a number of bytes, and then to values beyond them.
func TestDocs_HaveTheBoundsOfTheCode(t *testing.T) {
	tried := 0
	for _, p := range pages() {
		for _, s := range p.sections(t) {
			for _, r := range s.rows {
				within, beyond := boundValues(t, r.bound)
				tried += len(within)
				for _, value := range within {
					p.mustRead(t, s, r.name, value)
				}
				for _, value := range beyond {
					if _, err := p.with(t, s, r.name, value); err == nil {
						t.Errorf("%s: `%s` in `%s` may be %.40s; the bound is %s", p.file, r.name, s.name, value, r.bound)
					}
				}
			}
		}
	}
	if tried < 40 {
		t.Errorf("found %d bounds", tried)
	}
}

// boundValues returns values at the bounds, and the next ones beyond them.
func boundValues(t *testing.T, bound string) (within, beyond []string) {
	t.Helper()
	if m := bytesBound.FindStringSubmatch(bound); m != nil {
		n, err := strconv.Atoi(strings.ReplaceAll(m[1], ",", ""))
		if err != nil {
			t.Fatal(err)
		}
		return []string{strconv.Quote(strings.Repeat("a", n))}, []string{strconv.Quote(strings.Repeat("a", n+1))}
	}
	if m := mostBound.FindStringSubmatch(bound); m != nil {
		return []string{m[1]}, []string{m[1] + " + 1"}
	}
	m := rangeBound.FindStringSubmatch(bound)
	if m == nil {
		return nil, nil
	}
	low, high := m[1], m[2]
	text, err := strconv.Unquote(high)
	if err == nil {
		size, err := humanize.ParseBytes(text)
		if err == nil {
			return []string{low, high}, []string{"-1", strconv.FormatUint(size+1, 10)}
		}
		return []string{low, high}, []string{`"-1ns"`, strconv.Quote(text + "1ns")}
	}
	return []string{low, high}, []string{low + " - 1", high + " + 1"}
}

// TestDocs_ListTheFunctionsOfTheCode compares the functions of docs/jobs.md.
func TestDocs_ListTheFunctionsOfTheCode(t *testing.T) {
	text, err := os.ReadFile("../docs/jobs.md")
	if err != nil {
		t.Fatal(err)
	}
	_, list, _ := strings.Cut(string(text), "## Functions")
	list, _, _ = strings.Cut(list, "The file functions")
	var documented, known []string
	for _, m := range regexp.MustCompile("`([a-z0-9_]+)`").FindAllStringSubmatch(list, -1) {
		documented = append(documented, m[1])
	}
	for name := range functions.NewBudget().Table(functions.Files{}) {
		known = append(known, name)
	}
	slices.Sort(documented)
	slices.Sort(known)
	if !slices.Equal(documented, known) {
		t.Errorf("the page has the functions\n%v, the code\n%v", documented, known)
	}
}

// example returns the first example of a section.
func (s *section) example() (string, bool) {
	m := fenced.FindStringSubmatch(s.text)
	if m == nil {
		return "", false
	}
	return m[1], true
}

// with reads the example of a block with another value of an argument, without it if the value is "".
func (p *page) with(t *testing.T, s *section, argument, value string) (string, error) {
	t.Helper()
	example, ok := s.example()
	if !ok {
		t.Fatalf("%s: the section of `%s` has no example", p.file, s.name)
	}
	file := parseWritable(t, p.whole(example))
	body := file.Body()
	if s.name != outermost {
		for step := range strings.SplitSeq(s.name, ".") {
			if body != nil {
				body = findBlock(body, step)
			}
		}
	}
	if body == nil {
		t.Fatalf("%s: the example of `%s` does not have this block", p.file, s.name)
	}
	body.RemoveAttribute(argument)
	if value != "" {
		given := parseWritable(t, "x = "+value+"\n").Body().GetAttribute("x")
		body.SetAttributeRaw(argument, given.Expr().BuildTokens(nil))
	}
	read, err := p.read(string(file.Bytes()))
	if err != nil {
		return "", fmt.Errorf("%s: %s = %.40s: %w", s.name, argument, value, err)
	}
	text, err := json.MarshalIndent(read, "", " ")
	return string(text), err
}

func (p *page) mustRead(t *testing.T, s *section, argument, value string) string {
	t.Helper()
	text, err := p.with(t, s, argument, value)
	if err != nil {
		t.Errorf("%s: %v", p.file, err)
	}
	return text
}

func parseWritable(t *testing.T, src string) *hclwrite.File {
	t.Helper()
	f, diags := hclwrite.ParseConfig([]byte(src), "x.hcl", hcl.InitialPos)
	if diags.HasErrors() {
		t.Fatalf("%s\n%v", src, diags)
	}
	return f
}

// blockNamed returns the first block with the name of a section, nil without one.
func blockNamed(t *testing.T, src, name string) *hclsyntax.Body {
	t.Helper()
	body, diags := conf.Parse("x.hcl", []byte(src))
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	found := body.(*hclsyntax.Body)
	for step := range strings.SplitSeq(name, ".") {
		if found != nil {
			found = innerBlock(found, step)
		}
	}
	return found
}

func innerBlock(body *hclsyntax.Body, name string) *hclsyntax.Body {
	for _, b := range body.Blocks {
		if b.Type == name {
			return b.Body
		}
		if found := innerBlock(b.Body, name); found != nil {
			return found
		}
	}
	return nil
}

// findBlock is innerBlock for a file that can be changed.
func findBlock(body *hclwrite.Body, name string) *hclwrite.Body {
	for _, b := range body.Blocks() {
		if b.Type() == name {
			return b.Body()
		}
		if found := findBlock(b.Body(), name); found != nil {
			return found
		}
	}
	return nil
}

func readJob(src string) (any, error) {
	f, err := ReadJob("jobs.md", []byte(src), &Inputs{Env: []string{"BERTH_VAR_image=web:2"}})
	if err != nil {
		return nil, err
	}
	defaults.Canonicalize(f.Job)
	return f.Job, validate.Job(f.Job)
}

func readVolume(src string) (any, error) {
	v, err := parseVolume("volumes.md", []byte(src))
	if err != nil {
		return nil, err
	}
	v.Canonicalize()
	return v, validate.Volume(v)
}

var firstWord = regexp.MustCompile(`(?m)^[a-z_]+`)

// wholeJob puts the blocks around an example that it has in a job file.
func wholeJob(example string) string {
	name := firstWord.FindString(example)
	parents := parentsIn(reflect.TypeFor[jobFile](), name)
	if name == "task" { // it may also be in a job, as the only one of a group
		parents = []string{"job", "group"}
	}
	src := example
	for _, parent := range slices.Backward(parents) {
		switch {
		case parent == "task":
			src = "task \"main\" {\ndriver = \"exec\"\n" + src + "}\n"
		case parent == "group" && !strings.HasPrefix(src, "task"):
			src = "group \"main\" {\n" + src + "task \"main\" {\ndriver = \"exec\"\n}\n}\n"
		case parent == "group":
			src = "group \"main\" {\n" + src + "}\n"
		case parent == "job" && !strings.HasPrefix(src, "group"):
			src = "job \"example\" {\n" + src + "group \"main\" {\ntask \"main\" {\ndriver = \"exec\"\n}\n}\n}\n"
		case parent == "job":
			src = "job \"example\" {\n" + src + "}\n"
		default:
			src = parent + " {\n" + src + "}\n"
		}
	}
	return src
}

// parentsIn returns the names of the blocks in which a block is, the outermost first. Of several places it is
// the first. The blocks in a sidecar_task are those of a task.
func parentsIn(root reflect.Type, name string) []string {
	seen := map[reflect.Type]bool{}
	var find func(t reflect.Type, path []string) ([]string, bool)
	find = func(t reflect.Type, path []string) ([]string, bool) {
		if seen[t] || t == reflect.TypeFor[sidecarTask]() {
			return nil, false
		}
		seen[t] = true
		fields := blocksOf(t)
		for _, f := range fields {
			if rowOf(f).name == name {
				return path, true
			}
		}
		for _, f := range fields {
			inner := append(slices.Clone(path), rowOf(f).name)
			if found, ok := find(structOf(f.Type), inner); ok {
				return found, true
			}
		}
		return nil, false
	}
	path, _ := find(root, nil)
	return path
}

// wholeVolume adds the arguments that a volume file needs to an example.
func wholeVolume(example string) string {
	if !strings.HasPrefix(example, "id ") {
		example = "id = \"example\"\nplugin_id = \"hostpath\"\n" + example
	}
	if !strings.Contains(example, "capability {") {
		example += "capability {\naccess_mode = \"single-node-writer\"\nattachment_mode = \"file-system\"\n}\n"
	}
	return example
}

// wholeClass adds the arguments that the file of a class needs to an example.
func wholeClass(example string) string {
	if !strings.HasPrefix(example, "name ") {
		example = "name = \"example\"\nplugin_id = \"hostpath\"\n" + example
	}
	return example
}

func readClass(src string) (any, error) {
	f, err := ReadClass("class.hcl", []byte(src))
	if err != nil {
		return nil, err
	}
	return f.Content, validate.VolumeClass(f.Content)
}
