package csi

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/endpoints/query"
	"berth/server/nodeconn"
	"berth/state"
	"berth/structs"
	"berth/structs/storage"
)

// placeCallTime bounds one call and not the request, which makes up to structs.MaxExternalAsk of them: a user
// waits for the answer.
const placeCallTime = 30 * time.Second

// placeCalls bounds the calls, and the answers in memory, for one user.
const placeCalls = 8

// place is a part of the storage of a plugin: the things that the controllers of one topology know. Drivers
// of node-local storage run a controller on each node that knows only its own things. Shared storage has no
// topology, so all of its controllers are one place.
type place struct {
	Key   string   // orders the places and names one in a page token
	Nodes []string // whose controllers are reachable, any of them

	token    string   // the plugin's token of the page to begin with
	later    bool     // the token is of an earlier request
	restarts int      // of the list, after the plugin has rejected a token
	down     []string // nodes whose controllers are not reachable
}

// maxPlaceRestarts bounds how often the list of a place begins anew for a page.
const maxPlaceRestarts = 3

// restart reports whether the list of the place begins anew after an error: the plugin has rejected a token
// of this request (CSI spec, the ABORTED of ListVolumes and of ListSnapshots). The token of an earlier
// request is not replaced, because its caller has the entries before it and could read them for ever.
func (p *place) restart(err error) bool {
	if structs.CodeOf(err) != structs.CSICodeAborted || p.token == "" || p.later ||
		p.restarts == maxPlaceRestarts {
		return false
	}
	p.restarts++
	p.token = ""
	return true
}

// explain adds the remedy to the rejection of a token of an earlier request.
func (p *place) explain(err error) error {
	if structs.CodeOf(err) != structs.CSICodeAborted || !p.later {
		return err
	}
	return fmt.Errorf("the plugin does not continue its list; begin the list anew, without a page token: %w", err)
}

// placesOf returns the parts of a plugin's storage in the order of their keys. A place all of whose
// controllers are down has no nodes.
func placesOf(tx *state.ReadTx, pluginID string) []*place {
	// The key of a topology names the same place in each request, although the controllers change.
	byKey := map[string]*place{}
	placeOf := func(c nodeconn.Controller) *place {
		key := storage.TopologyText(c.Topology)
		if byKey[key] == nil {
			byKey[key] = &place{Key: key}
		}
		return byKey[key]
	}

	healthy, others := nodeconn.AllControllers(tx, pluginID)
	for _, c := range healthy {
		p := placeOf(c)
		p.Nodes = append(p.Nodes, c.NodeID)
	}
	for _, c := range others {
		p := placeOf(c)
		p.down = append(p.down, c.NodeID)
	}

	// The order is the same for each page: a token names a place by its key.
	byName := func(a, b *place) int { return strings.Compare(a.Key, b.Key) }
	return slices.SortedFunc(maps.Values(byKey), byName)
}

// placesFrom returns the places from the one that a page token names. That place begins at the token of the
// plugin. A place that has gone since the last page is skipped: the list goes on with the next one.
func placesFrom(all []*place, token string) ([]*place, error) {
	key, err := query.ParseToken(token)
	if err != nil || len(key) == 0 {
		return all, err
	}
	compare := func(p *place, key string) int { return strings.Compare(p.Key, key) }
	first, found := slices.BinarySearchFunc(all, key[0], compare)
	// The token of a plugin may have any bytes, also the separator. The rest of the parts is joined again.
	if found {
		all[first].token = strings.Join(key[1:], "\x00")
		all[first].later = true
	}
	return all[first:], nil
}

// placeAnswer is one page of one place.
type placeAnswer[T any] struct {
	Entries   []T
	NextToken string // "" at the end of the list
}

// placeList says how to list things of one kind.
type placeList[T any] struct {
	Kind  string // for the texts of warnings: "volumes"
	Limit int    // the most entries of a page, 0 for the bounds in structs
	// Call asks the controller of one of the nodes, which know the same things, for a page of at most most
	// entries, 0 for any number. It checks the sizes of the answer, because a plugin has made it.
	Call func(ctx context.Context, nodes []string, token string, most int32) (placeAnswer[T], error)
	// Key names an entry, "" for one to leave out. Two controllers of one storage list the same things when
	// their topologies differ.
	Key func(T) string
	// Bytes is the size of an entry in memory.
	Bytes func(T) int
}

// placePage is one page over all places.
type placePage[T any] struct {
	Entries   []T // never nil
	NextToken string
	Warnings  []string // one for each place that has not answered
}

// Page returns the page of a plugin that a token begins. An unreachable place is a warning, unless no
// other place answers.
func (l placeList[T]) Page(
	ctx context.Context, tx *state.ReadTx, pluginID, token string,
) (*placePage[T], error) {
	all, err := placesFrom(placesOf(tx, pluginID), token)
	if err != nil {
		return nil, err
	}
	f := &pageFill[T]{
		placeList: l,
		places:    all,
		seen:      map[string]bool{},
		page:      &placePage[T]{Entries: []T{}},
	}
	return f.page, f.fill(ctx)
}

// pageFill is a page in the making. One goroutine owns it. Those of callPlaces change only their own answers.
type pageFill[T any] struct {
	placeList[T]
	places []*place // still to be called
	calls  int
	bytes  int             // of the entries on the page
	seen   map[string]bool // keys
	failed error           // the last
	page   *placePage[T]
}

// placeOutcome is the outcome of the last call of a place.
type placeOutcome[T any] struct {
	placeAnswer[T]
	err error
}

// fill calls place after place until the page is full.
func (f *pageFill[T]) fill(ctx context.Context) error {
	total := len(f.places)
	for len(f.places) > 0 && !f.full() {
		if ctx.Err() != nil {
			return structs.Timeoutf("%w", ctx.Err())
		}

		// Places are called in order, so what is left after a full page is again a suffix of them.
		called := f.places[:min(len(f.places), f.maxConcurrent())]
		outcomes := f.callPlaces(ctx, called)
		// A place that was called and is not added keeps its token, and its answer is thrown away. The next
		// page calls it again.
		for i, p := range called {
			if f.full() || !f.addPages(ctx, p, outcomes[i]) {
				break
			}
			f.places = f.places[1:]
		}
	}

	// The token has the place and the position in it.
	if len(f.places) > 0 {
		next := f.places[0]
		f.page.NextToken = query.Token(next.Key, next.token)
	}

	switch {
	// Each place that failed has one warning, so their number tells whether any answered.
	case f.failed != nil && len(f.page.Warnings) == total:
		return f.failed
	case total == 0:
		return nodeconn.ErrNoController
	}
	return nil
}

// full reports whether the page takes no more. The three bounds protect the server: the memory for the
// answer, the calls of plugins, and their bytes.
func (f *pageFill[T]) full() bool {
	return len(f.page.Entries) >= cmp.Or(f.Limit, structs.MaxExternal) ||
		f.calls >= structs.MaxExternalAsk ||
		f.bytes >= structs.MaxExternalSum
}

// callPlaces calls places for their next pages at the same time.
func (f *pageFill[T]) callPlaces(ctx context.Context, places []*place) []placeOutcome[T] {
	most := f.remaining()
	f.calls += len(places)
	outcomes := make([]placeOutcome[T], len(places))
	var wg sync.WaitGroup
	for i, p := range places {
		wg.Go(func() { outcomes[i] = f.callPlace(ctx, p, most) })
	}
	wg.Wait()
	return outcomes
}

func (f *pageFill[T]) callPlace(ctx context.Context, p *place, most int32) placeOutcome[T] {
	for {
		answer, err := f.Call(ctx, p.Nodes, p.token, most)
		if !p.restart(err) {
			return placeOutcome[T]{answer, p.explain(err)}
		}
	}
}

// maxConcurrent returns how many places are called at the same time. On a page with a size, the limit of one
// place depends on the earlier answers.
func (f *pageFill[T]) maxConcurrent() int {
	if f.Limit > 0 {
		return 1
	}
	return placeCalls
}

// remaining returns how many more entries fit on the page, 0 for any number.
func (f *pageFill[T]) remaining() int32 {
	if f.Limit == 0 {
		return 0
	}
	// At least 1, because 0 asks the plugin for any number (CSI spec, ListVolumesRequest.max_entries).
	return int32(max(1, f.Limit-len(f.page.Entries)))
}

// addPages adds the answer of a place and its further pages. It reports false if the page is full before the
// place ends. The token of the place then names the page to continue with.
func (f *pageFill[T]) addPages(ctx context.Context, p *place, o placeOutcome[T]) bool {
	for o.err == nil {
		for _, entry := range o.Entries {
			// A place may answer a thing twice over its pages when things come and go meanwhile (CSI spec,
			// ListVolumes).
			key := f.Key(entry)
			if key == "" || f.seen[key] {
				continue
			}
			f.seen[key] = true
			f.bytes += f.Bytes(entry)
			f.page.Entries = append(f.page.Entries, entry)
		}

		p.token = o.NextToken
		// No token is the end of the list.
		if p.token == "" {
			return true
		}
		if f.full() {
			return false
		}
		f.calls++
		o = f.callPlace(ctx, p, f.remaining())
	}

	// The entries that the place has answered before stay on the page.
	f.failed = o.err
	f.page.Warnings = append(f.page.Warnings, f.warning(p, o.err))
	return true
}

// warning says which part of the list is missing, and where to look.
func (f *pageFill[T]) warning(p *place, err error) string {
	where := "the " + f.Kind
	if p.Key != "" {
		where += " in " + p.Key
	}
	// The text is the same for each answer, so the nodes are sorted.
	nodes := slices.Concat(p.Nodes, p.down)
	slices.Sort(nodes)
	return fmt.Sprintf("%s (controller on node %s) are not listed: %v", where, firstFewNodes(nodes), err)
}

// firstFewNodes names the first of many nodes.
func firstFewNodes(nodes []string) string {
	var short []string
	shown := min(3, len(nodes))
	for _, id := range nodes[:shown] {
		short = append(short, structs.ShortID(id))
	}
	text := strings.Join(short, ", ")
	if more := len(nodes) - shown; more > 0 {
		text += fmt.Sprintf(" and %d more", more)
	}
	return text
}
