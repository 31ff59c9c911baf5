package ui

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"berth/api"
	"berth/api/allocs"
	"berth/api/events"
	"berth/api/jobs"
	"berth/api/nodes"
	"berth/api/volumes"
	"berth/structs"
	"berth/structs/event"
)

// livePath is the path of the stream that tells a view of changes.
const livePath = Root + "live"

const (
	// refreshEvery is the least time between two changes that a view is told of. It reads its rows after each.
	refreshEvery = time.Second
	// aliveEvery is the interval of the lines of an idle stream. Without them the loss of a browser whose
	// machine is gone would not be seen.
	aliveEvery = 15 * time.Second
	// liveStall is the time within which a browser takes the next bytes.
	liveStall = time.Minute
)

// Waits reports whether a request is a stream to a view, whose connection waits for changes.
func Waits(r *http.Request) bool { return r.URL.Path == livePath }

// newestOf reads the index of the newest change of the rows of a topic. Topics without a list have none here.
var newestOf = map[event.Topic]func(context.Context, *api.Client, *api.Query) (*api.Meta, error){
	event.Job: func(ctx context.Context, c *api.Client, q *api.Query) (*api.Meta, error) {
		_, meta, err := jobs.List(ctx, c, q)
		return meta, err
	},
	event.Allocation: func(ctx context.Context, c *api.Client, q *api.Query) (*api.Meta, error) {
		_, meta, err := allocs.List(ctx, c, q)
		return meta, err
	},
	event.Evaluation: func(ctx context.Context, c *api.Client, q *api.Query) (*api.Meta, error) {
		_, meta, err := jobs.ListEvaluations(ctx, c, q)
		return meta, err
	},
	event.Deployment: func(ctx context.Context, c *api.Client, q *api.Query) (*api.Meta, error) {
		_, meta, err := jobs.ListDeployments(ctx, c, q)
		return meta, err
	},
	event.Node: func(ctx context.Context, c *api.Client, q *api.Query) (*api.Meta, error) {
		_, meta, err := nodes.List(ctx, c, q)
		return meta, err
	},
	event.CSIVolume: func(ctx context.Context, c *api.Client, q *api.Query) (*api.Meta, error) {
		_, meta, err := volumes.List(ctx, c, volumes.Filter{}, q)
		return meta, err
	},
	event.CSIPlugin: func(ctx context.Context, c *api.Client, q *api.Query) (*api.Meta, error) {
		_, meta, err := volumes.ListPlugins(ctx, c, q)
		return meta, err
	},
	event.Claim: func(ctx context.Context, c *api.Client, q *api.Query) (*api.Meta, error) {
		_, meta, err := volumes.ListClaims(ctx, c, volumes.ClaimFilter{}, q)
		return meta, err
	},
}

// liveTopics are the topics of all views.
func liveTopics() (all []string) {
	for _, v := range allViews() {
		if v.topics != "" {
			all = append(all, strings.Split(v.topics, ",")...)
		}
	}
	return all
}

// follower tells one browser of changes.
type follower struct {
	call   *call
	client *api.Client
	topics []string
	conn   *http.ResponseController
}

// serveLive tells a view of changes until the browser goes. A view reads its rows when the stream begins and
// after each change that it is told of, so an event that came before is of no use to it.
func (h *handler) serveLive(w http.ResponseWriter, r *http.Request) {
	c := h.newCall(w, r)
	f := &follower{
		call:   c,
		client: c.client(c.namespace),
		topics: strings.Split(c.param("topics"), ","),
		conn:   http.NewResponseController(w),
	}
	for _, t := range f.topics {
		if !slices.Contains(liveTopics(), t) {
			http.Error(w, "the parameter topics has one that no view has", http.StatusBadRequest)
			return
		}
	}

	ctx, cancel := c.stream()
	defer cancel()
	last := f.newest(ctx)
	stream, err := f.open(ctx, last)
	if err != nil {
		http.Error(w, err.Error(), structs.KindOf(err).HTTPStatus())
		return
	}

	// The deadline of the last write must not end the next request of the connection.
	defer func() { _ = f.conn.SetWriteDeadline(time.Time{}) }()
	w.Header().Set("Content-Type", "text/event-stream")
	err = f.send("retry: 3000\n\n")
	if err == nil {
		err = f.follow(ctx, stream, last)
	} else {
		_ = stream.Close()
	}
	h.Logger.Debug("a view no longer follows the events", "path", r.URL.Path, "error", err)
}

// open opens the stream of the events after an index that are of the topics of the view, and of rows that the
// caller may read.
func (f *follower) open(ctx context.Context, after uint64) (*events.Stream, error) {
	var some []string
	for _, t := range f.topics {
		some = append(some, fmt.Sprintf("Topic == %q", t))
	}
	return events.Open(ctx, f.client, events.Options{
		Namespace: f.call.namespace,
		Filter:    strings.Join(some, " or "),
		Index:     after + 1,
		Follow:    true,
	})
}

// follow tells of a change for the first event of each stream. Then it opens the stream anew, after all that
// the view reads now. So a busy cluster costs a few events a second, and not all of them.
func (f *follower) follow(ctx context.Context, stream *events.Stream, last uint64) error {
	for {
		index, err := f.first(ctx, stream)
		if err != nil {
			return err
		}

		// The index is read before the view is told: what changes later is told again.
		last = max(last, index, f.newest(ctx))
		err = f.send(fmt.Sprintf("event: changed\ndata: %d\n\n", last))
		if err != nil {
			return err
		}

		select {
		case <-time.After(refreshEvery):
		case <-ctx.Done():
			return ctx.Err()
		}
		stream, err = f.open(ctx, last)
		if err != nil {
			return err
		}
	}
}

// first waits for the first event of a stream, returns its index and closes the stream.
func (f *follower) first(ctx context.Context, stream *events.Stream) (uint64, error) {
	type result struct {
		line *events.Line
		err  error
	}
	got := make(chan result, 1)
	go func() {
		line, err := stream.Next()
		got <- result{line, err}
	}()
	// Close ends the read, and the channel has a place for its result.
	defer func() { _ = stream.Close() }()

	alive := time.NewTicker(aliveEvery)
	defer alive.Stop()
	for {
		select {
		case r := <-got:
			if r.err != nil {
				return 0, r.err
			}
			return r.line.Index, nil
		case <-alive.C:
			err := f.send(": alive\n\n")
			if err != nil {
				return 0, err
			}
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// newest returns the index of the newest change of the rows of the view, as far as the caller may list them.
func (f *follower) newest(ctx context.Context) (index uint64) {
	ctx, cancel := context.WithTimeout(ctx, readTime)
	defer cancel()
	for _, t := range f.topics {
		read := newestOf[event.Topic(t)]
		if read == nil {
			continue
		}
		meta, err := read(ctx, f.client, &api.Query{PerPage: 1, AllowStale: true})
		if err == nil { // else the stream begins earlier, and tells of a change that there was
			index = max(index, meta.Index)
		}
	}
	return index
}

// send sends a part of the stream at once.
func (f *follower) send(text string) error {
	// A writer without deadlines is one of a test.
	_ = f.conn.SetWriteDeadline(time.Now().Add(liveStall))
	_, err := io.WriteString(f.call.w, text)
	if err != nil {
		return err
	}
	return f.conn.Flush()
}
