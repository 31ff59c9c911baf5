package pages

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/a-h/templ"
	"golang.org/x/net/html"

	"berth/structs"
	"berth/ui/views"
)

// filler fills data with a text.
type filler struct {
	text string
	// unlinked: the data has no addresses that may be missing.
	unlinked bool
	// fields has the texts with their fields. If it is not nil, each string has its own number besides.
	fields map[string]string
}

// maxDepth ends the reasons of reasons.
const maxDepth = 12

// fill gives the text to each string of a value, and two elements to each list.
func (f filler) fill(v reflect.Value, field string, depth int) {
	if depth > maxDepth {
		return
	}
	switch v.Kind() {
	case reflect.String:
		v.SetString(f.textOf(field))
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Int, reflect.Int64:
		v.SetInt(7)
	case reflect.Uint64:
		v.SetUint(7)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		f.fill(v.Elem(), field, depth+1)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			f.fill(v.Index(i), field, depth+1)
		}
	case reflect.Struct:
		f.fillFields(v, depth)
	}
}

func (f filler) textOf(field string) string {
	if f.fields == nil {
		return f.text
	}
	text := fmt.Sprintf("%s-%d-", f.text, len(f.fields))
	f.fields[text] = field
	return text
}

func (f filler) fillFields(v reflect.Value, depth int) {
	if v.Type() == reflect.TypeFor[structs.CSIVolumeDetail]() {
		for _, shown := range []string{"ID", "State", "AccessMode"} {
			v.FieldByName(shown).SetString(f.textOf(v.Type().Name() + "." + shown))
		}
		return
	}
	for i := range v.NumField() {
		name := v.Type().Field(i).Name
		missing := f.unlinked && (name == "Link" || name == "To")
		if v.Field(i).CanSet() && !missing {
			f.fill(v.Field(i), v.Type().Name()+"."+name, depth+1)
		}
	}
}

// filled returns data of a type.
func filled[T any](f filler) (data T) {
	f.fill(reflect.ValueOf(&data).Elem(), "", 0)
	return data
}

// components has each component with filled data. A name is that of the function, with a word for other data.
func components(f filler) map[string]templ.Component {
	frame := filled[Frame](f)
	anonymous := frame
	anonymous.LoggedIn = false
	content := Content{Before: LoggedIn(), Rows: Fault(f.text), After: Slow(f.text)}
	empty := Listing{Table: views.Table{Empty: f.text}}
	return map[string]templ.Component{
		"Page":           Page(frame, content),
		"Page anonymous": Page(anonymous, content),
		"Rows":           Rows(frame, content),
		"Confirm":        Confirm(filled[Confirmation](f)),
		"Exec":           Exec(filled[TaskExec](f)),
		"Fault":          Fault(f.text),
		"List":           List(filled[Listing](f)),
		"List empty":     List(empty),
		"ListForm":       ListForm(filled[Form](f)),
		"Log":            Log(filled[TaskLog](f)),
		"LoggedIn":       LoggedIn(),
		"Login":          Login(filled[LoginForm](f)),
		"OneThing":       OneThing(filled[Thing](f)),
		"OneVolume":      OneVolume(filled[Volume](f)),
		"ProblemList":    ProblemList(filled[Problems](f)),
		"Slow":           Slow(f.text),
		"Topology":       Topology(filled[Cluster](f)),
	}
}

// document is what a browser makes of a component.
type document struct {
	elements []string // their names with those of their attributes, in the order of the document
	texts    []string // of elements and of attributes that are no addresses
	to       []string // the addresses
}

// addresses are the attributes that a browser follows.
var addresses = []string{"href", "src", "action", "formaction"}

func drawn(t *testing.T, c templ.Component) (d document) {
	t.Helper()
	var text strings.Builder
	err := c.Render(t.Context(), &text)
	if err != nil {
		t.Fatal(err)
	}
	root, err := html.Parse(strings.NewReader(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	for n := range root.Descendants() {
		if n.Type == html.TextNode {
			d.texts = append(d.texts, n.Data)
		}
		if n.Type != html.ElementNode {
			continue
		}
		element := n.Data
		for _, a := range n.Attr {
			element += " " + a.Key
			if slices.Contains(addresses, a.Key) {
				d.to = append(d.to, a.Val)
			} else {
				d.texts = append(d.texts, a.Val)
			}
		}
		d.elements = append(d.elements, element)
	}
	return d
}

// hostile are texts that must stay texts.
var hostile = []string{
	`"><script>alert(1)</script>`,
	`' onmouseover='alert(1)`,
	`" autofocus onfocus="alert(1)`,
	` onmouseover=alert(1) `,
	`</title></textarea></pre></style></script><script>alert(1)</script><!--`,
	"javascript:alert(1)",
	"JaVaScript:alert(1)",
	" \x01javascript:alert(1)",
	"java\tscript:alert(1)",
	"data:text/html,<script>alert(1)</script>",
	"&lt;script&gt; &quot; &#106;avascript:alert(1)",
}

// TestComponents_ShowHostileTextsAsTexts: a text from outside adds no element and no attribute to a
// view, is shown as it is, and is no address of a script.
func TestComponents_ShowHostileTextsAsTexts(t *testing.T) {
	const harmless = "harmless"
	for _, unlinked := range []bool{false, true} {
		plain := components(filler{text: harmless, unlinked: unlinked})
		for _, text := range hostile {
			for name, c := range components(filler{text: text, unlinked: unlinked}) {
				t.Run(fmt.Sprintf("%s/%t/%q", name, unlinked, text), func(t *testing.T) {
					want, got := drawn(t, plain[name]), drawn(t, c)
					if !slices.Equal(got.elements, want.elements) {
						t.Errorf("the elements are\n%q\ninstead of\n%q", got.elements, want.elements)
					}
					if now, then := count(got.texts, text), count(want.texts, harmless); now != then {
						t.Errorf("it has the text %d times instead of %d: %q", now, then, got.texts)
					}
					checkAddresses(t, got.to)
				})
			}
		}
	}
}

// count counts a text. The spaces around it do not count.
func count(texts []string, text string) (n int) {
	for _, s := range texts {
		n += strings.Count(s, strings.TrimSpace(text))
	}
	return n
}

// checkAddresses reports addresses that are not those of a path, of http or of https. A browser reads them
// without tabs and ends of lines, and without the spaces and control characters before them.
func checkAddresses(t *testing.T, all []string) {
	t.Helper()
	for _, to := range all {
		read := strings.NewReplacer("\t", "", "\n", "", "\r", "").Replace(to)
		read = strings.TrimLeftFunc(read, func(r rune) bool { return r <= ' ' })
		if read == string(templ.FailedSanitizationURL) {
			continue
		}
		scheme, _, found := strings.Cut(read, ":")
		if found && !strings.ContainsAny(scheme, "/?#") && scheme != "http" && scheme != "https" {
			t.Errorf("the address %q has the scheme %q", to, scheme)
		}
	}
}

// notShown are fields whose texts need not be in a view: it shows some for no rows alone, and the colour of
// no first cell.
var notShown = []string{"Cell.Tone", "Chain.AllocID", "Choice.Filter", "Reason.Fact", "Table.Empty"}

// TestComponents_ShowAllTheirData: each text of the data is in the view.
func TestComponents_ShowAllTheirData(t *testing.T) {
	fields := map[string]string{}
	var shown strings.Builder
	for name, c := range components(filler{text: "text", fields: fields}) {
		if strings.HasSuffix(name, " empty") {
			continue
		}
		d := drawn(t, c)
		fmt.Fprintln(&shown, d.texts, d.to)
	}
	for text, field := range fields {
		if !slices.Contains(notShown, field) && !strings.Contains(shown.String(), text) {
			t.Errorf("no view shows %s", field)
		}
	}
}

// TestComponents_KeepAddresses: the addresses of the page, of http and of https stay as they are.
func TestComponents_KeepAddresses(t *testing.T) {
	for _, to := range []string{
		"/ui/volume?id=%22%3E&namespace=a%26b",
		"https://provider.example/login?a=1&b=2",
		"http://127.0.0.1:4747/ui/",
	} {
		got := drawn(t, Login(LoginForm{Methods: []Method{{Name: "sso", To: to}}}))
		if !slices.Contains(got.to, to) {
			t.Errorf("%q is not in %q", to, got.to)
		}
	}
	here := Frame{Here: "/ui/volumes?search=a b&show=\"x\""}
	got := drawn(t, Page(here, Content{Rows: LoggedIn()}))
	want := "/ui/login?next=" + url.QueryEscape(here.Here)
	if !slices.Contains(got.to, want) {
		t.Errorf("%q is not in %q", want, got.to)
	}
}

// TestHostileTexts_AreInEachComponent: a new component is in the table of this test.
func TestHostileTexts_AreInEachComponent(t *testing.T) {
	table := components(filler{})
	exported := 0
	for _, name := range files(t, "*_templ.go") {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !fn.Name.IsExported() {
				continue
			}
			exported++
			if table[fn.Name.Name] == nil {
				t.Errorf("the tests with hostile texts lack the component %s", fn.Name.Name)
			}
		}
	}
	if exported < 10 {
		t.Errorf("found %d components", exported)
	}
}
