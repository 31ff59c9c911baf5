package images

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"time"

	"github.com/dustin/go-humanize"

	"berth/client/drivers/docker/engine"
	"berth/client/drivers/docker/taskconfig"
	"berth/structs"
)

// flight is a download or a load, which several tasks may wait for. The Coordinator's lock guards users and
// listeners.
type flight struct {
	users     int
	listeners map[string]func(string) // by task ID
	cancel    context.CancelCauseFunc
	done      chan struct{}
	image     *engine.Image // after done, as err
	err       error
}

var errUnwanted = errors.New("no task needs the image any more")

// fetch downloads or loads the image, together with other tasks that need the same.
func (c *Coordinator) fetch(ctx context.Context, r Request) (*engine.Image, error) {
	slow := structs.Preconditionf("docker: image %s is not there after %s (image_pull_timeout)", r.Ref,
		r.Limit)
	ctx, cancel := context.WithTimeoutCause(ctx, r.Limit, slow)
	defer cancel()
	f := c.join(r)
	defer c.leave(r, f)
	select {
	case <-f.done:
		return f.image, f.err
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// join takes part in the flight of a request, which it begins if there is none.
func (c *Coordinator) join(r Request) *flight {
	c.mu.Lock()
	defer c.mu.Unlock()
	f := c.flights[r.key()]
	if f == nil {
		// The task that begins the flight may leave it before the others.
		ctx, cancel := context.WithCancelCause(context.Background())
		f = &flight{
			listeners: map[string]func(string){},
			cancel:    cancel,
			done:      make(chan struct{}),
		}
		c.flights[r.key()] = f
		go c.fly(ctx, r, f)
	}

	f.users++
	f.listeners[r.TaskID] = r.Progress
	return f
}

// leave ends a part in a flight. The last one ends the flight, and waits for its end.
func (c *Coordinator) leave(r Request, f *flight) {
	c.mu.Lock()
	f.users--
	delete(f.listeners, r.TaskID)
	last := f.users == 0
	if last && c.flights[r.key()] == f {
		delete(c.flights, r.key())
	}

	c.mu.Unlock()
	if last {
		f.cancel(errUnwanted)
		<-f.done
	}
}

// fly is the goroutine of a flight. The last task that leaves waits for it.
func (c *Coordinator) fly(ctx context.Context, r Request, f *flight) {
	image, err := c.bring(ctx, r, f)
	c.mu.Lock()
	defer c.mu.Unlock()

	// The last task has left, and another flight may have the key.
	if c.flights[r.key()] == f {
		delete(c.flights, r.key())
	}

	f.image = image
	f.err = err
	close(f.done)
}

// bring downloads or loads an image and finds it. Archives with images of one reference are loaded one after
// the other, and each image is found before the next load gives its name to another one.
func (c *Coordinator) bring(ctx context.Context, r Request, f *flight) (*engine.Image, error) {
	if r.Archive == "" {
		err := c.transfer(ctx, r, f)
		if err != nil {
			return nil, err
		}
		return c.cfg.Engine.Image(ctx, r.Ref)
	}

	unlock, err := c.loads.Lock(ctx, r.TaskID, r.Ref)
	if err != nil {
		return nil, err
	}
	defer unlock()

	err = c.transfer(ctx, r, f)
	if err != nil {
		return nil, err
	}

	image, err := c.cfg.Engine.Image(ctx, r.loadedName())
	digits, isID := imageID(r.Ref)
	missing := structs.IsKind(err, structs.KindNotFound)
	if missing || err == nil && isID && image.ID != "sha256:"+digits {
		return nil, structs.Preconditionf("the archive %s has no image %s", r.Archive, r.Ref)
	}

	return image, err
}

// loadedName is the name of the image of an archive at the daemon. It depends on the reference alone, so that
// a repeated load adds no name.
func (r Request) loadedName() string {
	return fmt.Sprintf("%s:%x", taskconfig.LoadedImages, sha256.Sum256([]byte(r.Ref)))
}

// transfer downloads or loads an image. It fails when nothing happens for a time.
func (c *Coordinator) transfer(ctx context.Context, r Request, f *flight) error {
	limit := c.cfg.ActivityTimeout
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	idle := time.AfterFunc(limit, func() {
		cancel(structs.Preconditionf("docker: image %s: no progress for %s", r.Ref, limit))
	})
	defer idle.Stop()
	// Only the goroutine that reads the messages uses it, so it needs no lock.
	p := &progress{last: time.Now(), layers: map[string]layer{}}
	each := func(m *engine.Message) {
		idle.Reset(limit)
		if text := p.add(m); text != "" {
			c.tell(f, fmt.Sprintf("image %s: %s", r.Ref, text))
		}
	}

	var err error
	if r.Archive != "" {
		err = c.load(ctx, r, each, idle)
	} else {
		err = c.cfg.Engine.Pull(ctx, r.Ref, r.Auth, each)
	}

	// The engine knows only that it was cancelled; the cause says why.
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}

	if structs.IsKind(err, structs.KindNotFound) || structs.IsKind(err, structs.KindInvalid) {
		return structs.Preconditionf("%w", err) // a registry may have the image later
	}

	return err
}

// load gives the image of the archive to the daemon. The bytes that the daemon takes are progress, too.
func (c *Coordinator) load(
	ctx context.Context, r Request, each func(*engine.Message), idle *time.Timer,
) error {
	archive, err := r.Open()
	if err != nil {
		return err
	}
	defer archive.Close()

	active := &activeReader{archive, func() { idle.Reset(c.cfg.ActivityTimeout) }}
	out, in := io.Pipe()
	renamed := make(chan error, 1)
	go func() {
		err := nameAlone(in, active, r.Ref, r.loadedName())
		_ = in.CloseWithError(err)
		renamed <- err
	}()

	err = c.cfg.Engine.Load(ctx, out, each)
	_ = out.CloseWithError(io.ErrClosedPipe) // ends the copy if the daemon has not read it to its end
	copyErr := <-renamed
	if copyErr != nil && !errors.Is(copyErr, io.ErrClosedPipe) {
		return copyErr // the daemon reports only that its input has ended
	}

	return err
}

// activeReader notes each read.
type activeReader struct {
	io.Reader
	note func()
}

func (r *activeReader) Read(p []byte) (int, error) {
	r.note()
	return r.Reader.Read(p)
}

// tell passes a text to all tasks that wait for a flight. A listener may write to a disk, for which the other
// images must not wait.
func (c *Coordinator) tell(f *flight, text string) {
	c.mu.Lock()
	listeners := slices.Collect(maps.Values(f.listeners))
	c.mu.Unlock()
	for _, listener := range listeners {
		if listener != nil {
			listener(text)
		}
	}
}

// progressInterval is the time between two texts about a download.
var progressInterval = 30 * time.Second

// maxLayers bounds the layers that are counted.
const maxLayers = 1000

// progress adds up the messages of a download.
type progress struct {
	last   time.Time // of the last text
	layers map[string]layer
}

type layer struct {
	current, total int64
	done           bool
}

// add counts a message. It returns a text if it is time for one.
func (p *progress) add(m *engine.Message) string {
	l, known := p.layers[m.ID]
	if m.ID != "" && (known || len(p.layers) < maxLayers) {
		// While it extracts a layer, the daemon counts the same bytes again.
		if m.Progress != nil && m.Progress.Total > 0 && m.Status == "Downloading" {
			l.current = m.Progress.Current
			l.total = m.Progress.Total
		}

		if m.Status == "Pull complete" || m.Status == "Already exists" {
			l.done = true
			l.current = l.total
		}

		p.layers[m.ID] = l
	}

	// A download that takes less time tells nothing.
	if time.Since(p.last) < progressInterval {
		return ""
	}

	p.last = time.Now()
	return p.String()
}

// String describes the state of the download.
func (p *progress) String() string {
	var done int
	var current, total int64
	for _, l := range p.layers {
		current += l.current
		total += l.total
		if l.done {
			done++
		}
	}

	return fmt.Sprintf("%d of %d layers done, %s of %s downloaded",
		done, len(p.layers), humanize.Bytes(uint64(max(current, 0))), humanize.Bytes(uint64(max(total, 0))))
}
