package lookup

import (
	"slices"
	"strconv"
	"strings"

	"berth/structs"
)

// The kinds of queries.
const (
	ConsulService  = "service"       // instances of a service
	ConsulServices = "services"      // names of services
	ConsulKey      = "key"           // a key with its value
	ConsulKeys     = "keys below"    // all keys below a prefix
	BerthService   = "berthService"  // instances of a service of provider berth
	BerthServices  = "berthServices" // names of services of provider berth
	BerthVariable  = "nomadVar"      // a variable with its items
	BerthVariables = "nomadVarList"  // variables without their items
	VaultSecret    = "secret"        // a secret of Vault
	VaultNames     = "secrets"       // names of secrets below a path
	VaultWrite     = "secret with"   // the answer to values that are written to Vault
)

// Query is a question of a template. It is comparable.
type Query struct {
	Kind string
	Name string `codec:",omitempty"` // of the service, the key or the prefix
	Tag  string `codec:",omitempty"`
	Near string `codec:",omitempty"` // sorts by the distance to a node of Consul
	// Place is a datacenter of Consul or a region of berth, "" for the node's own.
	Place string `codec:",omitempty"`
	// Filter has the accepted states of instances in Consul, joined by commas.
	Filter    string `codec:",omitempty"`
	Choose    string `codec:",omitempty"` // see structs.ServiceGetRequest
	Namespace string `codec:",omitempty"` // of berth
	// As is the task with whose token a source answers, "" for the agent's.
	As string `codec:",omitempty"`
	// Values are written to Vault: an object of texts in JSON.
	Values string `codec:",omitempty"`
}

// ofVault reports whether Vault answers.
func (q Query) ofVault() bool {
	switch q.Kind {
	case VaultSecret, VaultNames, VaultWrite:
		return true
	}
	return false
}

// Owner names the owner of the token of the answer.
func (q Query) Owner() string {
	if q.As == "" {
		return "agent's"
	}
	return "task's"
}

// ofBerth reports whether the servers answer, and not Consul.
func (q Query) ofBerth() bool {
	switch q.Kind {
	case BerthService, BerthServices, BerthVariable, BerthVariables:
		return true
	}
	return false
}

// String returns the query as a user writes it, such as "service web@dc1".
func (q Query) String() string {
	name := q.Name
	if q.Tag != "" {
		name = q.Tag + "." + name
	}

	for _, part := range []struct{ before, text string }{
		{"@", q.Place},
		{"~", q.Near},
		{"|", q.Filter},
	} {
		if part.text != "" && !(part.before == "|" && part.text == passing) {
			name += part.before + part.text
		}
	}

	if q.ofVault() && q.Tag != "" {
		name = q.Name + "?version=" + q.Tag
	}

	if q.Choose != "" {
		name += " (" + q.Choose + ")"
	}

	return strings.TrimSpace(q.Kind + " " + structs.Cut(name, structs.MaxQuoted))
}

// passing is the state that a service has to have in Consul if a query names none.
const passing = "passing"

// states are the states of an instance in Consul, and "any".
var states = []string{"any", passing, "warning", "critical", "maintenance"}

// The bounds of a query: the bytes of each part, and the instances that it chooses.
const (
	maxName   = 512
	maxChosen = structs.MaxGroupCount
)

// The characters of names beside letters, digits and the underscore.
const (
	ofName  = "-"
	ofTag   = "-=:."
	ofPlace = "-."
)

// ParseService parses the text of the function service: [TAG.]NAME[@DATACENTER][~NEAR][|FILTER].
func ParseService(text string) (Query, error) {
	const form = "[TAG.]NAME[@DATACENTER][~NEAR][|FILTER]"
	q := Query{Kind: ConsulService, Filter: passing}
	rest, filter, filtered := strings.Cut(text, "|")
	if filtered {
		accepted, err := parseFilter(filter)
		if err != nil {
			return q, err
		}

		q.Filter = accepted
	}

	rest, near, sorted := cutLast(rest, "~")
	q.Near = near
	rest, place, placed := cutLast(rest, "@")
	q.Place = place
	q.Tag, q.Name = splitTag(rest)
	if !isNamed(q, rest) || sorted && !isName(near, ofPlace) || placed && !isName(place, ofPlace) {
		return q, wrongForm("service", text, form)
	}

	return q, nil
}

// parseFilter returns the states of a filter in the order of states.
func parseFilter(filter string) (string, error) {
	wanted := map[string]bool{}
	for name := range strings.SplitSeq(filter, ",") {
		wanted[strings.TrimSpace(name)] = true
	}
	var accepted []string
	for _, s := range states {
		if wanted[s] {
			accepted = append(accepted, s)
		}
		delete(wanted, s)
	}
	if len(wanted) > 0 || len(accepted) == 0 {
		return "", structs.Invalidf("the filter of service is %q; expected some of %s, joined by commas",
			structs.Cut(filter, structs.MaxQuoted), strings.Join(states, ", "))
	}
	return strings.Join(accepted, ","), nil
}

// ParseServices parses the text of the function services: "" or @DATACENTER.
func ParseServices(text string) (Query, error) {
	place, err := placeAlone("services", text, "@DATACENTER")
	return Query{Kind: ConsulServices, Place: place}, err
}

// placeAlone parses the text of a function that takes nothing but a place.
func placeAlone(function, text, form string) (string, error) {
	place, placed := strings.CutPrefix(text, "@")
	if text != "" && (!placed || !isName(place, ofPlace)) {
		return "", wrongForm(function, text, "nothing or "+form)
	}
	return place, nil
}

// ParseKey parses the text of the function key: PATH[@DATACENTER].
func ParseKey(text string) (Query, error) { return keyQuery(ConsulKey, text) }

// ParseKeys parses the text of the functions ls and tree: PREFIX[@DATACENTER].
func ParseKeys(text string) (Query, error) { return keyQuery(ConsulKeys, text) }

// keyQuery parses a path of keys, which Consul has without a slash at its begin.
func keyQuery(kind, text string) (Query, error) {
	path, place, placed := strings.Cut(strings.TrimPrefix(text, "/"), "@")
	if path == "" || path[0] == '/' || len(path) > maxName || strings.ContainsRune(path, 0) ||
		leavesKeys(path) || placed && !isName(place, ofPlace) {
		return Query{}, wrongForm("a key", text, "PATH[@DATACENTER]")
	}
	return Query{Kind: kind, Name: path, Place: place}, nil
}

// leavesKeys reports a path that Consul would take for an address outside the keys: it answers such an
// address by the clean one, with the rights of the agent's token.
func leavesKeys(path string) bool {
	parts := strings.Split(path, "/")
	return slices.Contains(parts, "..") || slices.Contains(parts, ".")
}

// ParseInstances parses the text of the function berthService: [TAG.]NAME[@REGION]. The namespace is the
// job's.
func ParseInstances(namespace, text string) (Query, error) {
	rest, place, placed := cutLast(text, "@")
	q := Query{
		Kind:      BerthService,
		Place:     place,
		Namespace: namespace,
	}
	q.Tag, q.Name = splitTag(rest)
	if !isNamed(q, rest) || placed && !isName(place, ofPlace) {
		return q, wrongForm(BerthService, text, "[TAG.]NAME[@REGION]")
	}
	return q, nil
}

// ParseChosen is ParseInstances with at most count of them: the same ones for the same key as long as they
// are there.
func ParseChosen(namespace, text string, count int64, key string) (Query, error) {
	if count < 1 || count > maxChosen || key == "" || len(key) > maxName {
		return Query{}, structs.Invalidf("%s takes a number from 1 to %d, a key of 1 to %d bytes, and a name",
			BerthService, maxChosen, maxName)
	}
	q, err := ParseInstances(namespace, text)
	q.Choose = strconv.FormatInt(count, 10) + "|" + key
	return q, err
}

// ParseNames parses the text of the function berthServices: "" or @REGION. The namespace is the job's.
func ParseNames(namespace, text string) (Query, error) {
	place, err := placeAlone(BerthServices, text, "@REGION")
	return Query{
		Kind:      BerthServices,
		Place:     place,
		Namespace: namespace,
	}, err
}

func wrongForm(of, text, form string) error {
	return structs.Invalidf("%s is %q; expected %s", of, structs.Cut(text, structs.MaxQuoted), form)
}

func cutLast(s, sep string) (before, after string, found bool) {
	i := strings.LastIndex(s, sep)
	if i < 0 {
		return s, "", false
	}
	return s[:i], s[i+len(sep):], true
}

// splitTag splits at the last dot: a tag may have dots, and a name has none.
func splitTag(s string) (tag, name string) {
	tag, name, found := cutLast(s, ".")
	if !found {
		return "", s
	}
	return tag, name
}

// isNamed reports whether a query has a name, and a tag if the text before its place has one.
func isNamed(q Query, text string) bool {
	return isName(q.Name, ofName) && !strings.HasPrefix(text, ".") && (q.Tag == "" || isName(q.Tag, ofTag))
}

// isName reports whether a text has only letters, digits, underscores and some other characters.
func isName(s, others string) bool {
	if s == "" || len(s) > maxName {
		return false
	}
	return strings.IndexFunc(s, func(c rune) bool {
		isWord := c == '_' || '0' <= c && c <= '9' || 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z'
		return !isWord && !strings.ContainsRune(others, c)
	}) < 0
}
