package jobfile

import (
	"cmp"
	"fmt"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/hashicorp/hcl/v2/hclsyntax"
	"github.com/hashicorp/hcl/v2/hclwrite"
	"github.com/zclconf/go-cty/cty"
)

// writer collects the lines of a file. hclwrite.Format indents them at the end.
type writer struct {
	text  strings.Builder
	fresh bool // the last line opened a block, or there is none
}

// bytes returns the file in its canonical form.
func (w *writer) bytes() []byte { return hclwrite.Format([]byte(w.text.String())) }

// line adds a line.
func (w *writer) line(format string, args ...any) {
	fmt.Fprintf(&w.text, format+"\n", args...)
	w.fresh = false
}

// comments adds lines of comments. A text with several lines becomes several comments.
func (w *writer) comments(texts []string) {
	for _, text := range texts {
		for part := range strings.SplitSeq(text, "\n") {
			w.comment(strings.Map(printable, part))
		}
	}
}

// commentWidth is the most characters of a line of a comment, except of one with a single word.
const commentWidth = 96

// comment adds one comment. The lines after its first one are indented.
func (w *writer) comment(text string) {
	line := "#"
	for word := range strings.FieldsSeq(text) {
		if len(line)+1+len(word) > commentWidth && len(line) > len("#   ") {
			w.line("%s", line)
			line = "#  "
		}
		line += " " + word
	}
	w.line("%s", line)
}

// printable drops the characters that would end a comment or change the look of a terminal.
func printable(r rune) rune {
	if !strconv.IsPrint(r) {
		return -1
	}
	return r
}

// block adds a block with labels, after an empty line.
func (w *writer) block(kind string, fill func(), labels ...string) {
	if w.text.Len() > 0 && !w.fresh {
		w.line("")
	}
	head := kind
	for _, label := range labels {
		head += " " + quoted(label) // a label has no placeholders
	}
	w.line("%s {", head)
	w.fresh = true
	fill()
	w.line("}")
}

// put adds an argument, unless its value is zero or one of the defaults.
func (w *writer) put(name string, value any, defaults ...any) {
	v := reflect.ValueOf(value)
	isList := v.Kind() == reflect.Slice || v.Kind() == reflect.Map
	if !v.IsValid() || v.IsZero() || isList && v.Len() == 0 {
		return
	}
	for _, d := range defaults {
		if reflect.DeepEqual(value, d) {
			return
		}
	}
	w.set(name, value)
}

// set adds an argument with any value but nil.
func (w *writer) set(name string, value any) {
	text, isText := value.(string)
	if isText && fitsHeredoc(text) {
		w.line("%s = <<%s\n%s%s", name, marker, escaped(text), marker)
		return
	}
	w.line("%s = %s", name, literal(value))
}

// pairs adds a map, as a block if all its keys can be names of arguments.
func (w *writer) pairs(name string, values map[string]string) {
	all := map[string]any{}
	for key, value := range values {
		all[key] = value
	}
	w.values(name, all)
}

// values adds the settings of a driver, of a proxy or of an autoscaler.
func (w *writer) values(name string, values map[string]any) {
	switch {
	case len(values) == 0:
		return
	case !haveNames(values):
		w.set(name, values)
		return
	}
	w.block(name, func() { w.content(values) })
}

// content adds arguments, and the blocks after them.
func (w *writer) content(values map[string]any) {
	var blocks []string
	for _, key := range slices.SortedFunc(maps.Keys(values), byUse) {
		if blocksOf(values[key]) != nil {
			blocks = append(blocks, key)
			continue
		}
		// A setting without a value asks for nothing.
		if values[key] != nil {
			w.set(key, values[key])
		}
	}
	for _, key := range blocks {
		for _, b := range blocksOf(values[key]) {
			w.block(key, func() { w.content(b) })
		}
	}
}

// leading are the settings that a reader looks for first.
var leading = []string{"type", "image", "entrypoint", "command", "args", "ports", "source", "target"}

// byUse orders settings: the leading ones, and the others by their names.
func byUse(a, b string) int {
	place := func(name string) int {
		at := slices.Index(leading, name)
		if at < 0 {
			return len(leading)
		}
		return at
	}
	return cmp.Or(cmp.Compare(place(a), place(b)), strings.Compare(a, b))
}

// blocksOf returns the maps of a list of maps that can be written as blocks, nil for any other value.
func blocksOf(value any) (blocks []map[string]any) {
	list, isList := value.([]any)
	if !isList {
		return nil
	}
	for _, x := range list {
		m, isMap := x.(map[string]any)
		if !isMap || !haveNames(m) {
			return nil
		}
		blocks = append(blocks, m)
	}
	return blocks
}

// haveNames reports whether all keys can be names of arguments.
func haveNames(values map[string]any) bool {
	for key := range values {
		if !hclsyntax.ValidIdentifier(key) {
			return false
		}
	}
	return true
}

// marker ends a text of several lines.
const marker = "EOT"

// fitsHeredoc reports whether a text is better read over several lines, and is the same there.
func fitsHeredoc(text string) bool {
	isOdd := func(r rune) bool { return r != '\n' && r != '\t' && !strconv.IsPrint(r) }
	return strings.Count(text, "\n") > 1 && strings.HasSuffix(text, "\n") &&
		!strings.Contains(text, marker) && !strings.ContainsFunc(text, isOdd)
}

// placeholder matches the beginning of a placeholder that a job file has as it is.
var placeholder = regexp.MustCompile(`\$\$\{((?:attr|node|meta|env|device)\.[\w.-]+|(?:NOMAD|BERTH)_\w+)\}`)

// escaped returns a text in which nothing but placeholders is a template of HCL.
func escaped(text string) string {
	text = strings.NewReplacer("${", "$${", "%{", "%%{").Replace(text)
	return placeholder.ReplaceAllString(text, "$${$1}")
}

// quoted writes a text in which nothing is a template.
func quoted(text string) string { return string(hclwrite.TokensForValue(cty.StringVal(text)).Bytes()) }

// literal writes a value.
func literal(value any) string {
	if d, isTime := value.(time.Duration); isTime {
		return strconv.Quote(spanText(d))
	}
	v := reflect.ValueOf(value)
	switch v.Kind() {
	case reflect.Pointer:
		return literal(v.Elem().Interface())
	case reflect.String:
		return placeholder.ReplaceAllString(quoted(v.String()), "$${$1}")
	case reflect.Slice:
		return listText(v)
	case reflect.Map:
		return mapText(v)
	case reflect.Float64:
		return strconv.FormatFloat(v.Float(), 'f', -1, 64)
	case reflect.Invalid:
		return "null"
	}
	return fmt.Sprint(value)
}

func listText(v reflect.Value) string {
	var parts []string
	for _, x := range v.Seq2() {
		parts = append(parts, literal(x.Interface()))
	}
	return "[" + strings.Join(parts, ", ") + "]"
}

func mapText(v reflect.Value) string {
	if v.Len() == 0 {
		return "{}"
	}
	var lines []string
	for key, value := range v.Seq2() {
		name := literal(key.String())
		if hclsyntax.ValidIdentifier(key.String()) {
			name = key.String()
		}
		lines = append(lines, name+" = "+literal(value.Interface())+"\n")
	}
	slices.Sort(lines)
	return "{\n" + strings.Join(lines, "") + "}"
}

// spanText writes a duration without the units that are zero: 5m, not 5m0s.
func spanText(d time.Duration) string {
	text := d.String()
	if strings.HasSuffix(text, "m0s") {
		text = strings.TrimSuffix(text, "0s")
	}
	if strings.HasSuffix(text, "h0m") {
		text = strings.TrimSuffix(text, "0m")
	}
	return text
}
