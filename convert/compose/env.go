package compose

import (
	"errors"
	"fmt"
	"iter"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/compose-spec/compose-go/v2/template"
	"github.com/compose-spec/compose-go/v2/types"

	"berth/structs"
)

// secretName matches names of variables whose values do not belong into a job file.
var secretName = regexp.MustCompile(`(?i)(password|passwd|passphrase|secret|token|credential|` +
	`(^|_)(pass|pw|pwd|auth)$|(api|private|signing|access|encryption|master|license)_?key)`)

// login matches addresses with the name and the password of a user.
var login = regexp.MustCompile(`://[^/@\s]*:[^/@\s]+@`)

// plainValue matches values of switches, which are no secrets.
var plainValue = regexp.MustCompile(`^(?i)(|yes|no|on|off|true|false|\d{1,3})$`)

// isSecret reports whether a variable probably has a secret, and not the path of a file with one.
func isSecret(key, value string) bool {
	isPath := strings.HasSuffix(strings.ToUpper(key), "_FILE")
	return login.MatchString(value) ||
		secretName.MatchString(key) && !isPath && !plainValue.MatchString(value)
}

// sorted returns the pairs of a map in the order of their keys.
func sorted[T ~map[string]V, V any](values T) iter.Seq2[string, V] {
	return func(yield func(string, V) bool) {
		for _, key := range slices.Sorted(maps.Keys(values)) {
			if !yield(key, values[key]) {
				return
			}
		}
	}
}

// environment sets the variables of a task. Those with values of the user's shell, with secrets and with
// addresses of other services are in a template.
func (c *converter) environment(place string, t *structs.Task, s *types.ServiceConfig) {
	var lines []string
	readsVariable := false
	for key, value := range sorted(s.Environment) {
		e := entry{c: c, key: key, of: s.Name, place: place}
		err := e.parse(c.written[s.Name][key], value)
		if err != nil {
			c.lost(place, "environment "+key, "its value has a fault: "+err.Error())
			continue
		}
		if !e.isOpen() {
			if t.Env == nil {
				t.Env = map[string]string{}
			}
			t.Env[key] = e.format
			continue
		}
		readsVariable = readsVariable || e.readsVariable
		lines = append(lines, e.line())
		for _, other := range e.services {
			c.note(place, "%s has the address and the port of the service %s: correct it if the program wants them apart", key, other)
		}
	}
	if len(lines) == 0 {
		return
	}

	text := strings.Join(lines, "")
	if readsVariable {
		text = fmt.Sprintf("{{ with $vars := nomadVar %q }}\n%s{{ end }}\n", c.variable(), text)
	}
	t.Templates = append(t.Templates, &structs.Template{
		DestPath:     "secrets/compose.env",
		Envvars:      true,
		EmbeddedTmpl: text,
	})
}

// entry is one variable of an environment.
type entry struct {
	c   *converter
	key string
	of  string // the service
	// place is the place of its notes.
	place string
	// format is the value, and with args a format of Go's fmt.
	format        string
	args          []string
	readsVariable bool
	services      []string // whose addresses it has
}

// isOpen reports whether the value is known on the node alone.
func (e *entry) isOpen() bool { return len(e.args) > 0 }

// The characters around a name in a value. A value of a file has none of them.
const (
	openMark  = "\x01"
	closeMark = "\x02"
)

// marked matches the parts of a value that are read on the node. The rest of the value is in the job file.
var marked = regexp.MustCompile(openMark + "[^" + closeMark + "]*" + closeMark)

// parse reads a value. written is the text before interpolation, and value the one after it, nil for one
// of the shell.
func (e *entry) parse(written string, value *string) error {
	if value == nil {
		e.addVariable(e.key)
		e.format = "%s"
		return nil
	}
	if strings.ContainsAny(written, openMark+closeMark) {
		return errors.New("it has control characters")
	}
	// A variable with a default keeps it, and any other one is read on the node.
	defaults := template.ExtractVariables(map[string]any{"value": written}, template.DefaultPattern)
	text, err := template.SubstituteWithOptions(written, func(name string) (string, bool) {
		v := defaults[name]
		if v.DefaultValue != "" {
			return "", false
		}
		return openMark + name + closeMark, true
	}, template.WithoutLogging)
	if err != nil {
		return err
	}
	if written == "" {
		text = *value
	}

	text = e.markServices(text)
	if isSecret(e.key, marked.ReplaceAllString(text, "")) {
		e.addVariable(e.key)
		e.format = "%s"
		return nil
	}
	e.split(text)
	return nil
}

// markServices puts marks around the addresses of other services.
func (e *entry) markServices(text string) string {
	for _, name := range e.c.names() {
		port, reached := e.c.inside[name]
		if !reached || name == e.of {
			continue
		}
		mark := openMark + "@" + name + closeMark
		if e.c.sharesLoopback(name, e.of) {
			mark = "127.0.0.1:" + strconv.Itoa(port)
		}
		if text == name {
			return e.bareName(name, mark)
		}
		text = address(name).ReplaceAllStringFunc(text, func(found string) string {
			before, number, _ := strings.Cut(found, name+":")
			if number != strconv.Itoa(port) {
				return found
			}
			return before + mark
		})
	}
	return text
}

// addressName matches names of variables that are probably addresses.
var addressName = regexp.MustCompile(`(?i)(addr|backend|broker|endpoint|host|server|upstream|ur[il])`)

// bareName returns the mark of a service for a value that is just its name, if the variable is an address.
func (e *entry) bareName(name, mark string) string {
	if addressName.MatchString(e.key) {
		return mark
	}
	e.c.note(e.place, "%s is also the name of a service: if it is its address, read it by a template", e.key)
	return name
}

// sharesLoopback reports whether two services are in one network.
func (c *converter) sharesLoopback(a, b string) bool {
	return c.groupOf[a] == c.groupOf[b] && c.inBridge(c.groupOf[a])
}

// split makes a format with arguments of a text with marks.
func (e *entry) split(text string) {
	before, rest, found := strings.Cut(text, openMark)
	if !found {
		e.format = text
		return
	}
	format := ""
	for found {
		format += strings.ReplaceAll(before, "%", "%%")
		var name string
		name, rest, _ = strings.Cut(rest, closeMark)
		service, isService := strings.CutPrefix(name, "@")
		if isService {
			format += "%s:%d"
			e.addService(service)
		} else {
			format += "%s"
			e.addVariable(name)
		}
		before, rest, found = strings.Cut(rest, openMark)
	}
	e.format = format + strings.ReplaceAll(before, "%", "%%")
}

func (e *entry) addVariable(name string) {
	e.readsVariable = true
	e.c.items[name] = true
	e.args = append(e.args, "$vars."+name+".Value")
}

func (e *entry) addService(name string) {
	if !slices.Contains(e.services, name) {
		e.services = append(e.services, name)
	}
	of := "$" + structs.VariableName(name)
	e.args = append(e.args, of+".Address", of+".Port")
}

// line returns the line of a template that sets the variable. The value is quoted, whatever it has.
func (e *entry) line() string {
	value := fmt.Sprintf("printf %s %s", strconv.Quote(e.format), strings.Join(e.args, " "))
	if e.format == "%s" {
		value = e.args[0]
	}
	text := fmt.Sprintf("%s={{ %s | toJSON }}\n", e.key, value)
	for _, name := range slices.Backward(e.services) {
		text = fmt.Sprintf("{{ range $%s := berthService %q }}%s{{ end }}\n", structs.VariableName(name),
			e.c.offered(name), text)
	}
	return text
}
