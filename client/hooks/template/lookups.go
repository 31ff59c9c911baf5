package template

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/consul/lookup"
	"berth/internal/gotext"
	"berth/structs"
)

// maxNamed bounds the questions that a message names.
const maxNamed = 3

// waitError is the error of a text that reads an answer that is not there yet.
type waitError []string

func (e waitError) Error() string {
	named := strings.Join(e[:min(len(e), maxNamed)], "; ")
	if more := len(e) - maxNamed; more > 0 {
		named += fmt.Sprintf("; and %d more", more)
	}
	return named
}

// answer is an answer that a text has read.
type answer struct {
	Query  lookup.Query
	Digest string // "" if there was none
}

// lookupFunctions returns the functions that read services, keys and variables. Those with the names of the
// dialect's own services read the services of provider berth.
func (r *rendering) lookupFunctions() gotext.Functions {
	return gotext.Functions{
		"service":       r.service,
		"services":      r.services,
		"key":           r.key,
		"keyExists":     r.keyExists,
		"keyExistsGet":  r.keyExistsGet,
		"keyOrDefault":  r.keyOrDefault,
		"ls":            r.keysBelow(isChild, false),
		"safeLs":        r.keysBelow(isChild, true),
		"tree":          r.keysBelow(isLeaf, false),
		"safeTree":      r.keysBelow(isLeaf, true),
		"berthService":  r.berthService,
		"berthServices": r.berthServices,
		"nomadService":  r.berthService,
		"nomadServices": r.berthServices,

		"nomadVar":         variables{r}.read,
		"nomadVarExists":   variables{r}.exists,
		"nomadVarList":     variables{r}.list,
		"nomadVarListSafe": variables{r}.listSome,

		"secret":  secrets{r}.read,
		"secrets": secrets{r}.list,
	}
}

// ask returns the answer to a query: nil, and the text waits, if there is none yet. A text that asks twice
// gets the same answer both times.
func (r *rendering) ask(q lookup.Query) (any, error) {
	if s, ok := r.answers[q]; ok {
		return s.Value, nil
	}

	if r.values.lookups == nil {
		return nil, structs.Preconditionf("%s: nothing answers", q)
	}

	s, err := r.values.lookups.Read(q)
	if err != nil {
		return nil, err
	}

	r.answers[q] = s
	r.reads.Answers = append(r.reads.Answers, answer{q, s.Digest})
	if s.Digest == "" {
		reason := "no answer yet"
		if s.Err != nil {
			reason = structs.Cut(s.Err.Error(), structs.MaxReason)
		}

		r.wait(q, reason)
	}

	return s.Value, r.checkReads()
}

// wait notes that the text is not complete. It goes on, so that all its questions are known at once.
func (r *rendering) wait(q lookup.Query, reason string) {
	text := fmt.Sprintf("%s (%s)", q, reason)
	if !slices.Contains(r.waits, text) {
		r.waits = append(r.waits, text)
	}
}

func (r *rendering) service(words ...string) ([]*lookup.Service, error) {
	if len(words) == 0 || words[0] == "" {
		return nil, nil
	}
	q, err := lookup.ParseService(strings.Join(words, "|"))
	if err != nil {
		return nil, err
	}

	q.As = r.values.consulTask
	value, err := r.ask(q)
	list, _ := value.([]*lookup.Service)
	return list, err
}

func (r *rendering) services(words ...string) ([]*lookup.ServiceName, error) {
	q, err := lookup.ParseServices(strings.Join(words, ""))
	if err != nil {
		return nil, err
	}

	q.As = r.values.consulTask
	value, err := r.ask(q)
	list, _ := value.([]*lookup.ServiceName)
	return list, err
}

// pair returns a key, nil if Consul does not have it.
func (r *rendering) pair(path string) (*lookup.KeyPair, lookup.Query, error) {
	if path == "" {
		return nil, lookup.Query{}, nil
	}
	q, err := lookup.ParseKey(path)
	if err != nil {
		return nil, q, err
	}

	q.As = r.values.consulTask
	value, err := r.ask(q)
	pair, _ := value.(*lookup.KeyPair)
	return pair, q, err
}

// key returns the value of a key. The text waits for a key that is not there.
func (r *rendering) key(path string) (string, error) {
	pair, q, err := r.pair(path)
	switch {
	case err != nil || path == "":
		return "", err
	// The answer has no such key. While there is no answer, ask waits already.
	case pair == nil && r.answers[q].Digest != "":
		r.wait(q, "Consul does not have it")
	case pair != nil:
		return pair.Value, nil
	}
	return "", nil
}

func (r *rendering) keyExists(path string) (bool, error) {
	pair, _, err := r.pair(path)
	return pair != nil, err
}

// keyExistsGet returns a key, one without a value if Consul does not have it.
func (r *rendering) keyExistsGet(path string) (*lookup.KeyPair, error) {
	pair, q, err := r.pair(path)
	if pair == nil {
		pair = &lookup.KeyPair{Path: q.Name, Key: q.Name}
	}
	return pair, err
}

// keyOrDefault returns another value for a key that is empty or not there.
func (r *rendering) keyOrDefault(path, other string) (string, error) {
	pair, _, err := r.pair(path)
	if pair == nil || pair.Value == "" {
		return other, err
	}
	return pair.Value, err
}

func isChild(key string) bool { return key != "" && !strings.Contains(key, "/") }

func isLeaf(key string) bool { return key != "" && !strings.HasSuffix(key, "/") }

// keysBelow returns a function that lists the keys below a prefix. With some, the text waits for a key.
func (r *rendering) keysBelow(keep func(string) bool, some bool) func(string) ([]*lookup.KeyPair, error) {
	return func(prefix string) ([]*lookup.KeyPair, error) {
		if prefix == "" {
			return nil, nil
		}

		q, err := lookup.ParseKeys(prefix)
		if err != nil {
			return nil, err
		}

		q.As = r.values.consulTask

		value, err := r.ask(q)
		if err != nil {
			return nil, err
		}

		all, _ := value.([]*lookup.KeyPair)
		var kept []*lookup.KeyPair
		for _, pair := range all {
			if keep(pair.Key) {
				kept = append(kept, pair)
			}
		}

		if some && len(kept) == 0 && r.answers[q].Digest != "" {
			r.wait(q, "Consul has none")
		}

		return kept, nil
	}
}

// berthService returns the instances of a service of the job's namespace: all, or a number of them that a key
// chooses.
func (r *rendering) berthService(words ...any) ([]*lookup.Instance, error) {
	q, err := r.instanceQuery(words)
	if err != nil {
		return nil, err
	}
	value, err := r.ask(q)
	list, _ := value.([]*lookup.Instance)
	return list, err
}

// instanceQuery reads the arguments of berthService.
func (r *rendering) instanceQuery(words []any) (q lookup.Query, err error) {
	texts := make([]string, len(words))
	for i, word := range words {
		texts[i], _ = word.(string)
	}
	switch len(words) {
	case 1:
		return lookup.ParseInstances(r.values.namespace, texts[0])
	case 3:
		count, err := integer(words[0])
		if err != nil {
			return q, err
		}
		return lookup.ParseChosen(r.values.namespace, texts[2], count, texts[1])
	}
	return q, structs.Invalidf("%s takes a name, or a number, a key and a name", lookup.BerthService)
}

func (r *rendering) berthServices(words ...string) ([]*lookup.ServiceName, error) {
	q, err := lookup.ParseNames(r.values.namespace, strings.Join(words, ""))
	if err != nil {
		return nil, err
	}
	value, err := r.ask(q)
	list, _ := value.([]*lookup.ServiceName)
	return list, err
}

// follow follows the queries of the last texts and of one that is not complete, and no others.
func (h *templates) follow(t *structs.Template, read *reads) {
	h.asked[t.DestPath] = read.Answers
	h.keep()
}

// keep tells which queries are needed still: the queries of the files as they are, and of the last rendering
// of each template, which may have failed.
func (h *templates) keep() {
	some := map[lookup.Query]bool{}
	for _, r := range h.rec.Rendered {
		for _, a := range r.Reads.Answers {
			some[a.Query] = true
		}
	}
	for list := range maps.Values(h.asked) {
		for _, a := range list {
			some[a.Query] = true
		}
	}
	h.values.lookups.Keep(some)
}
