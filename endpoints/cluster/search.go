package cluster

import (
	"cmp"
	"iter"
	"maps"
	"slices"
	"strings"

	"berth/endpoints/core"
	"berth/state"
	"berth/state/csi"
	statenamespace "berth/state/namespace"
	"berth/structs"
	"berth/structs/access"
	"berth/structs/cluster"
)

// Searches serve Search.
type Searches struct{ *core.Server }

// idsFunc yields the IDs of a context that begin with a prefix, in a namespace, in their order, each after
// its namespace, "" for rows without one.
type idsFunc func(tx *state.ReadTx, ns, prefix string) iter.Seq2[string, string]

// idsByContext has the contexts with rows. The Searches by prefix take the IDs from the indexes, in order, so
// a search reads little more than it returns. Namespaces and node pools are few, and are read whole.
var idsByContext = map[string]idsFunc{
	structs.SearchAllocs: func(tx *state.ReadTx, ns, prefix string) iter.Seq2[string, string] {
		return idsOf(state.AllocsFrom(tx, ns, prefix, state.Page{}),
			func(a *structs.Allocation) (ns, id string) { return a.Namespace, a.ID })
	},
	structs.SearchDeployments: func(tx *state.ReadTx, ns, prefix string) iter.Seq2[string, string] {
		return idsOf(state.DeploymentsFrom(tx, ns, prefix, state.Page{}),
			func(d *structs.Deployment) (ns, id string) { return d.Namespace, d.ID })
	},
	structs.SearchEvals: func(tx *state.ReadTx, ns, prefix string) iter.Seq2[string, string] {
		return idsOf(state.EvalsFrom(tx, ns, prefix, state.Page{}),
			func(e *structs.Evaluation) (ns, id string) { return e.Namespace, e.ID })
	},
	structs.SearchJobs: func(tx *state.ReadTx, ns, prefix string) iter.Seq2[string, string] {
		return idsOf(state.JobsFrom(tx, ns, prefix, state.Page{}),
			func(j *structs.Job) (ns, id string) { return j.Namespace, j.ID })
	},
	structs.SearchNamespaces: func(tx *state.ReadTx, _, prefix string) iter.Seq2[string, string] {
		return withPrefix(prefix, idsOf(slices.Values(statenamespace.All(tx)),
			func(n *cluster.Namespace) (ns, id string) { return "", n.Name }))
	},
	structs.SearchNodePools: func(tx *state.ReadTx, _, prefix string) iter.Seq2[string, string] {
		return withPrefix(prefix, idsOf(slices.Values(state.NodePools(tx)),
			func(p *cluster.NodePool) (ns, id string) { return "", p.Name }))
	},
	structs.SearchNodes: func(tx *state.ReadTx, _, prefix string) iter.Seq2[string, string] {
		return idsOf(state.NodesFrom(tx, prefix, state.Page{}),
			func(n *structs.Node) (ns, id string) { return "", n.ID })
	},
	structs.SearchPlugins: func(tx *state.ReadTx, _, prefix string) iter.Seq2[string, string] {
		return idsOf(csi.PluginsFrom(tx, prefix, state.Page{}),
			func(p *structs.CSIPluginRow) (ns, id string) { return "", p.ID })
	},
	structs.SearchVars: func(tx *state.ReadTx, ns, prefix string) iter.Seq2[string, string] {
		return idsOf(state.VariablesFrom(tx, ns, prefix, state.Page{}),
			func(v *access.Variable) (ns, id string) { return v.Namespace, v.Path })
	},
	structs.SearchVolumes: func(tx *state.ReadTx, ns, prefix string) iter.Seq2[string, string] {
		return idsOf(csi.VolumesFrom(tx, ns, prefix, state.Page{}),
			func(v *structs.CSIVolume) (ns, id string) { return v.Namespace, v.ID })
	},
}

// idsOf yields the place of each row. The rows come one at a time from the index: a search that has enough
// stops reading.
func idsOf[T any](rows iter.Seq[*T], place func(*T) (ns, id string)) iter.Seq2[string, string] {
	return func(yield func(ns, id string) bool) {
		for row := range rows {
			if !yield(place(row)) {
				return
			}
		}
	}
}

// withPrefix yields the IDs that begin with a prefix.
func withPrefix(prefix string, ids iter.Seq2[string, string]) iter.Seq2[string, string] {
	return func(yield func(ns, id string) bool) {
		for ns, id := range ids {
			if strings.HasPrefix(id, prefix) && !yield(ns, id) {
				return
			}
		}
	}
}

// shows reports whether the caller of a search may see a match. Searches ask it before they count a match: a
// row that the caller may not see takes no place of another, and shows in no truncation.
func shows(q *structs.QueryOptions, context, ns, id string) bool {
	return q.Sees == nil || q.Sees(ns, context+"/"+id)
}

// emptyContexts are contexts of the dialect without rows: nothing matches in them.
var emptyContexts = []string{"host_volumes", "quotas", "recommendations", "scaling_policy"}

// searched returns the contexts with rows that a request Searches. The answer has its context also if that
// has no rows.
func searched(context string) ([]string, error) {
	context = cmp.Or(context, structs.SearchAll)
	_, known := idsByContext[context]
	switch {
	case context == structs.SearchAll:
		return slices.Sorted(maps.Keys(idsByContext)), nil
	case known || slices.Contains(emptyContexts, context):
		return []string{context}, nil
	}

	return nil, structs.Invalidf("Context is %q; expected %s or one of: %s",
		structs.Cut(context, structs.MaxQuoted),
		structs.SearchAll,
		strings.Join(append(slices.Sorted(maps.Keys(idsByContext)), emptyContexts...), ", "))
}

// findIDs returns the first IDs of a context that begin with a prefix.
func findIDs(tx *state.ReadTx, q *structs.QueryOptions, context, prefix string) (ids []string, more bool) {
	// It is not nil: JSON has an empty list, and not null.
	ids = []string{}
	find := idsByContext[context]
	if find == nil {
		return ids, false
	}

	// One more than the bound is read, which shows that there are more.
	for ns, id := range find(tx, q.RequestNamespace(), prefix) {
		if !shows(q, context, ns, id) {
			continue
		}

		if len(ids) == structs.MaxSearched {
			return ids, true
		}

		ids = append(ids, id)
	}

	return ids, false
}

// Prefix Searches by the beginning of IDs.
func (s Searches) Prefix(
	tx *state.ReadTx,
	req *structs.SearchRequest,
	resp *structs.SearchResponse,
) error {
	contexts, err := searched(req.Context)
	if err != nil {
		return err
	}

	if len(req.Prefix) > structs.MaxName {
		return structs.Invalidf("Prefix has %d bytes; at most %d are allowed", len(req.Prefix), structs.MaxName)
	}

	resp.Matches = map[string][]string{}
	resp.Truncations = map[string]bool{}
	for _, c := range contexts {
		resp.Matches[c], resp.Truncations[c] = findIDs(tx, req.Query(), c, req.Prefix)
	}

	return nil
}

// Fuzzy Searches by a part of a name, in any case of its letters. Unlike prefix it reads all rows of a
// context.
func (s Searches) Fuzzy(
	tx *state.ReadTx,
	req *structs.FuzzySearchRequest,
	resp *structs.FuzzySearchResponse,
) error {
	contexts, err := searched(req.Context)
	if err != nil {
		return err
	}

	// One letter would match nearly every name, at the cost of a read of all rows.
	if n := len(req.Text); n < structs.MinSearchText || n > structs.MaxName {
		return structs.Invalidf("Text has %d bytes; expected %d to %d", n, structs.MinSearchText, structs.MaxName)
	}

	found := matches{
		text: strings.ToLower(req.Text),
		best: map[string][]rankedMatch{},
		more: map[string]bool{},
	}

	for _, c := range contexts {
		found.search(tx, c, req)
	}

	// An empty list and a missing context differ in the answer: a context that was searched is in it.
	resp.Matches = map[string][]*structs.FuzzyMatch{}
	resp.Truncations = map[string]bool{}
	for c, best := range found.best {
		list := []*structs.FuzzyMatch{}
		for _, m := range best {
			list = append(list, m.match)
		}

		resp.Matches[c] = list
		resp.Truncations[c] = found.more[c]
	}

	return nil
}

// matches are the best matches of a search by a part of a name.
type matches struct {
	text string // in lower case
	// Both maps are by context. A search of jobs adds the contexts of their parts.
	best map[string][]rankedMatch
	more map[string]bool
}

// rankedMatch is a match with the position of the text in the name.
type rankedMatch struct {
	match *structs.FuzzyMatch
	// in bytes of the name in lower case
	at int
}

// compareMatches orders matches: earlier positions and shorter names first.
func compareMatches(a, b rankedMatch) int {
	return cmp.Or(
		cmp.Compare(a.at, b.at),
		cmp.Compare(len(a.match.ID), len(b.match.ID)),
		// The last two make the order total: the answer would otherwise change between runs of a blocking
		// query.
		cmp.Compare(a.match.ID, b.match.ID),
		slices.Compare(a.match.Scope, b.match.Scope))
}

// search Searches one context.
func (f *matches) search(tx *state.ReadTx, context string, req *structs.FuzzySearchRequest) {
	ns := req.RequestNamespace()
	f.best[context] = nil
	// A match has the scope that a client needs to open it, so each context adds its own.
	switch context {
	case structs.SearchJobs:
		for j := range state.JobsFrom(tx, ns, "", state.Page{}) {
			if shows(req.Query(), context, j.Namespace, j.ID) {
				f.addJob(j)
			}
		}
	case structs.SearchAllocs:
		for a := range state.AllocsFrom(tx, ns, "", state.Page{}) {
			if shows(req.Query(), context, a.Namespace, a.ID) {
				f.add(context, a.Name, a.Namespace, a.ID)
			}
		}
	case structs.SearchNodes:
		for n := range state.NodesFrom(tx, "", state.Page{}) {
			if shows(req.Query(), context, "", n.ID) {
				f.add(context, n.Name, n.ID)
			}
		}
	case structs.SearchPlugins:
		for p := range csi.PluginsFrom(tx, "", state.Page{}) {
			if shows(req.Query(), context, "", p.ID) {
				f.add(context, p.ID)
			}
		}
	case structs.SearchNamespaces, structs.SearchNodePools:
		for _, name := range idsByContext[context](tx, ns, "") {
			if shows(req.Query(), context, "", name) {
				f.add(context, name)
			}
		}
	// The rows of the others have no name, so their IDs are searched, by their beginning.
	default:
		ids, more := findIDs(tx, req.Query(), context, req.Text)
		for _, id := range ids {
			f.put(context, rankedMatch{match: &structs.FuzzyMatch{ID: id}})
		}

		f.more[context] = more
	}
}

// programs has the key of a task's config that names its program, by driver, and the context of that name.
var programs = map[string][2]string{
	"exec":     {"command", structs.SearchCommands},
	"raw_exec": {"command", structs.SearchCommands},
	"docker":   {"image", structs.SearchImages},
	"podman":   {"image", structs.SearchImages},
	"java":     {"class", structs.SearchClasses},
}

// addJob adds a job and its parts.
func (f *matches) addJob(j *structs.Job) {
	f.add(structs.SearchJobs, j.Name, j.Namespace, j.ID)
	for _, g := range j.TaskGroups {
		f.add(structs.SearchGroups, g.Name, j.Namespace, j.ID)
		for _, t := range g.Tasks {
			f.add(structs.SearchTasks, t.Name, j.Namespace, j.ID, g.Name)
			program := programs[t.Driver]
			name, _ := t.Config[program[0]].(string)
			if name != "" {
				f.add(program[1], name, j.Namespace, j.ID, g.Name, t.Name)
			}
		}
	}
}

// add adds a thing if its name has the text.
func (f *matches) add(context, name string, scope ...string) {
	at := strings.Index(strings.ToLower(name), f.text)
	if at < 0 {
		return
	}

	f.put(context, rankedMatch{&structs.FuzzyMatch{ID: name, Scope: scope}, at})
}

// put adds a match and drops the worst one beyond the bound.
func (f *matches) put(context string, m rankedMatch) {
	best := f.best[context]
	// The list is full and sorted, so its last match is the worst.
	if len(best) == structs.MaxSearched {
		f.more[context] = true
		if compareMatches(m, best[len(best)-1]) >= 0 {
			return
		}

		best = best[:len(best)-1]
	}

	at, _ := slices.BinarySearchFunc(best, m, compareMatches)
	f.best[context] = slices.Insert(best, at, m)
}
