// Package images brings the images of docker tasks to the daemon, and removes them when no task has needed
// them for a while.
//
// Tasks that need the same image share one download. It ends when the last of them gives up. A download that
// makes no progress fails.
//
// Only an image that a task of this driver has used is ever removed. The users of an image are counted by
// task. After a restart of the agent they are counted again as the tasks are found. An image that other
// containers use, or that has several names, stays.
//
// The credentials for a download are in the job, in a file in the form of docker's config.json, or come from
// a helper program. The package keeps none.
package images

import (
	"context"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/hashicorp/go-hclog"

	"berth/client/drivers/docker/engine"
	"berth/internal/keylock"
	"berth/structs"
)

// Config has the settings of a Coordinator.
type Config struct {
	Engine *engine.Engine
	// Remove makes Run remove images that no task has used for Delay.
	Remove bool
	Delay  time.Duration
	// ActivityTimeout is the longest time without progress of a download or a load.
	ActivityTimeout time.Duration
	Logger          hclog.Logger
}

// Request names the image that a task needs.
type Request struct {
	TaskID string
	Ref    string
	Auth   engine.Auth
	Force  bool          // download it also if the daemon has it
	Limit  time.Duration // the longest time of the download or the load
	// Archive is an archive that has the image, "" if a registry has it. Open opens it.
	Archive string
	Open    func() (io.ReadCloser, error)
	// Progress takes texts about a long download. It must not block.
	Progress func(text string)
}

// Coordinator holds the images of one daemon.
type Coordinator struct {
	cfg   Config
	wake  chan struct{} // something has become due
	loads keylock.Map   // by reference

	// It guards the fields below. No call of the daemon is made with it.
	mu       sync.Mutex
	flights  map[string]*flight         // downloads and loads in flight, by request
	users    map[string]map[string]bool // task IDs by image ID
	ofTask   map[string]string          // image IDs by task ID
	due      map[string]time.Time       // when to remove an unused image, by image ID
	removals uint64                     // that have ended
	removing map[string]chan struct{}   // closed when the removal has ended, by image ID
}

// New makes a Coordinator without images.
func New(cfg Config) *Coordinator {
	return &Coordinator{
		cfg:      cfg,
		wake:     make(chan struct{}, 1),
		flights:  map[string]*flight{},
		users:    map[string]map[string]bool{},
		ofTask:   map[string]string{},
		due:      map[string]time.Time{},
		removing: map[string]chan struct{}{},
	}
}

// Acquire makes the daemon have an image, and counts the task as its user until Release.
func (c *Coordinator) Acquire(ctx context.Context, r Request) (*engine.Image, error) {
	for {
		before := c.endedRemovals()
		image, err := c.ensure(ctx, r)
		if err != nil {
			c.Release(r.TaskID) // of an earlier round
			return nil, err
		}

		removal := c.hold(image.ID, r.TaskID)
		switch {
		case removal == nil && c.endedRemovals() == before:
			return image, nil
		case removal == nil:
			continue // the image may have been removed after it was found; none removes it from here on
		}

		select {
		// The image is gone now, or was kept: the next round finds out, and brings it again.
		case <-removal:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (c *Coordinator) endedRemovals() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.removals
}

// ensure makes the daemon have the image.
func (c *Coordinator) ensure(ctx context.Context, r Request) (*engine.Image, error) {
	// The name of an archive says nothing of its content, so it is loaded each time.
	if !r.Force && r.Archive == "" {
		image, err := c.cfg.Engine.Image(ctx, r.Ref)
		if !structs.IsKind(err, structs.KindNotFound) {
			return image, err
		}
	}
	return c.fetch(ctx, r)
}

// Hold counts a task that was found again as the user of its image.
// A removal in flight fails by itself: the daemon keeps the image of a container.
func (c *Coordinator) Hold(imageID, taskID string) { c.hold(imageID, taskID) }

// hold counts a user. If the image is being removed, it returns the end of that instead.
func (c *Coordinator) hold(imageID, taskID string) (removal <-chan struct{}) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.removing[imageID]; r != nil {
		return r
	}

	if old, ok := c.ofTask[taskID]; ok && old != imageID {
		c.release(taskID)
	}

	if c.users[imageID] == nil {
		c.users[imageID] = map[string]bool{}
	}

	c.users[imageID][taskID] = true
	c.ofTask[taskID] = imageID
	delete(c.due, imageID)
	return nil
}

// Release ends the use of an image by a task. It is idempotent.
func (c *Coordinator) Release(taskID string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.release(taskID)
}

func (c *Coordinator) release(taskID string) {
	imageID, ok := c.ofTask[taskID]
	if !ok {
		return
	}

	delete(c.ofTask, taskID)
	delete(c.users[imageID], taskID)
	if len(c.users[imageID]) > 0 {
		return
	}

	delete(c.users, imageID)
	if !c.cfg.Remove {
		return
	}

	c.due[imageID] = time.Now().Add(c.cfg.Delay)
	select {
	case c.wake <- struct{}{}:
	default: // it is awake already
	}
}

// retryDelay is the time after which a failed removal is tried again.
const retryDelay = time.Minute

// Run removes unused images until ctx ends.
func (c *Coordinator) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		case <-timer.C:
		}

		for {
			id := c.takeDue()
			if id == "" {
				break
			}

			c.remove(ctx, id)
		}

		timer.Reset(c.untilDue())
	}
}

// untilDue returns the time until the next removal.
func (c *Coordinator) untilDue() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	// An image that becomes due earlier wakes Run.
	next := time.Hour
	for _, at := range c.due {
		next = min(next, max(time.Until(at), 0))
	}
	return next
}

// takeDue returns an image to be removed, "" if there is none, and marks it as being removed.
func (c *Coordinator) takeDue() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, at := range c.due {
		if time.Until(at) > 0 {
			continue
		}
		delete(c.due, id)
		c.removing[id] = make(chan struct{})
		return id
	}

	return ""
}

// remove removes an image that is marked.
func (c *Coordinator) remove(ctx context.Context, id string) {
	err := c.cfg.Engine.RemoveImage(ctx, id)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.removals++
	close(c.removing[id])
	delete(c.removing, id)
	switch {
	case err == nil:
		c.cfg.Logger.Info("unused image removed", "image_id", id)
	case structs.IsKind(err, structs.KindConflict):
		// It has another user or another name. The next task that ends its use makes it due again.
		c.cfg.Logger.Debug("unused image stays", "image_id", id, "reason", err)
	case ctx.Err() == nil:
		c.due[id] = time.Now().Add(retryDelay)
		c.cfg.Logger.Warn("failed to remove an unused image", "image_id", id, "retry_in", retryDelay, "error",
			err)
	}
}

// key tells requests apart that cannot share a download: the credentials of one task do not work for another.
// The text has credentials, so it is for comparison alone.
func (r Request) key() string {
	return fmt.Sprintf("%q %q %+v", r.Ref, r.Archive, r.Auth)
}
