package simulation

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"berth/structs"
	"berth/structs/capacity"
	"berth/structs/storage"
)

// The behaviours of tasks. A version of a job has one, in the environment of its task.
const (
	behaves = "SIMULATED"
	sick    = "sick"  // runs and never becomes healthy
	crashes = "crash" // fails soon after its start
)

// run is an allocation on a node.
type run struct {
	n     *node
	id    string
	group *structs.TaskGroup

	stop    context.CancelFunc
	stopped context.Context // ends with the order to stop
	changed chan struct{}
	unwound chan struct{} // closed when nothing of it is left

	works    bool // its tasks run; guarded by n.mu
	occupies bool // it has its capacity, devices and ports; guarded by n.mu

	mu      sync.Mutex
	alloc   *structs.Allocation
	started time.Time
	ended   time.Time
	failed  bool
	judged  string // the deployment, or the version, in which its health is known
}

// newRun makes the run of an allocation. The caller holds n.mu.
func newRun(n *node, a *structs.Allocation) *run {
	r := &run{
		n:       n,
		id:      a.ID,
		alloc:   a,
		group:   a.Job.Group(a.TaskGroup),
		changed: make(chan struct{}, 1),
		unwound: make(chan struct{}),
	}
	r.stopped, r.stop = context.WithCancel(n.ctx)
	if a.ServerTerminal() {
		r.stop()
	}
	return r
}

func (r *run) isUnwound() bool {
	select {
	case <-r.unwound:
		return true
	default:
		return false
	}
}

// update takes a new version of the row.
func (r *run) update(a *structs.Allocation) {
	r.mu.Lock()
	r.alloc = a
	r.mu.Unlock()
	if a.ServerTerminal() {
		r.stop()
	}
	select {
	case r.changed <- struct{}{}:
	default:
	}
}

func (r *run) row() *structs.Allocation {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.alloc
}

// random returns a time up to a bound.
func (r *run) random(most time.Duration) time.Duration { return r.n.w.log.pause(most + 1) }

// live is the life of the allocation: it waits for others, claims, mounts, works, stops and releases.
func (r *run) live() {
	n := r.n
	if r.setUp() {
		n.mu.Lock()
		r.works = true
		n.mu.Unlock()
		r.mu.Lock()
		r.started = time.Now()
		r.mu.Unlock()
		r.report()
		if len(r.group.Plugins()) > 0 {
			n.reportPlugins()
		}
		r.work()
	}
	if !n.isOn() {
		return // without power nothing more happens
	}
	n.mu.Lock()
	worked := r.works
	r.works = false
	r.occupies = false
	n.mu.Unlock()
	r.mu.Lock()
	r.ended = time.Now()
	r.mu.Unlock()
	if worked && len(r.group.Plugins()) > 0 {
		n.reportPlugins()
	}
	r.report()
	if !r.release() {
		return
	}
	close(r.unwound)
}

// setUp does what precedes the start. It reports false if the allocation is not to start.
func (r *run) setUp() bool {
	if !r.awaitOthers() || !r.mountAll() || !r.awaitHolders() {
		return false
	}
	return r.n.idle(r.random(2*time.Second)) && r.stopped.Err() == nil && r.occupy()
}

// awaitOthers waits for the allocations that the row names.
func (r *run) awaitOthers() bool {
	for id := range r.row().Awaits() {
		if !r.awaitOther(id) {
			return false
		}
	}
	return r.stopped.Err() == nil
}

func (r *run) awaitOther(id string) bool {
	r.n.mu.Lock()
	local := r.n.runs[id]
	r.n.mu.Unlock()
	if local != nil {
		select {
		case <-local.unwound:
			return true
		case <-r.stopped.Done():
			return false
		}
	}
	index := uint64(0)
	for r.stopped.Err() == nil {
		req := &structs.AllocGetRequest{AllocID: id}
		req.Namespace = r.row().Namespace
		req.MinIndex = index
		req.MaxWait = time.Minute
		resp, err := call(r.stopped, r.n, structs.AllocGet, req)
		switch {
		case structs.IsKind(err, structs.KindNotFound):
			return true
		case err != nil:
			r.n.idle(time.Second)
			continue
		case resp.Alloc.ClientTerminal() && len(resp.HeldVolumes) == 0, resp.Alloc.NodeID == r.n.id:
			return true
		}
		index = resp.Index
	}
	return false
}

// claims returns the claims of the allocation.
func (r *run) claims() (all []*structs.CSIClaim) {
	a := r.row()
	for _, v := range r.group.Volumes {
		if v.Type == structs.VolumeTypeCSI {
			c := v.Claim(a.Namespace, a.Index(), a.ID)
			c.AllocID = a.ID
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b *structs.CSIClaim) int { return strings.Compare(a.VolumeID, b.VolumeID) })
	return all
}

// mountAll claims the volumes and mounts each as soon as it may. After a rejection the allocation fails.
func (r *run) mountAll() bool {
	claims := r.claims()
	if len(claims) == 0 {
		return true
	}
	rec := &claimed{}
	for _, c := range claims {
		rec.keys = append(rec.keys, c.Key())
	}
	r.n.mu.Lock()
	r.n.records[r.id] = rec
	r.n.mu.Unlock()
	_, err := call(r.stopped, r.n, structs.CSIVolumeClaim, &structs.CSIVolumeClaimRequest{
		NodeID:   r.n.id,
		SecretID: r.n.secret,
		Claims:   claims,
	})
	for _, c := range claims {
		if err == nil {
			err = r.mountOne(c)
		}
	}
	if err != nil && r.stopped.Err() == nil {
		r.n.w.record("allocation %s fails: %v", structs.ShortID(r.id), err)
		r.mu.Lock()
		r.failed = true
		r.mu.Unlock()
	}
	return err == nil
}

func (r *run) mountOne(c *structs.CSIClaim) error {
	index := uint64(0)
	for {
		req := &structs.CSIClaimGetRequest{
			VolumeID: c.VolumeID,
			AllocID:  r.id,
			NodeID:   r.n.id,
			SecretID: r.n.secret,
		}
		req.Namespace = c.Namespace
		req.MinIndex = index
		req.MaxWait = time.Minute
		resp, err := call(r.stopped, r.n, structs.CSIClaimGet, req)
		switch {
		case err != nil:
			return err
		case resp.Claim == nil:
			return structs.NotFoundf("volume %s: the claim is gone", c.VolumeID)
		case resp.Ready && (!usesPlugin(c.VolumeID) || r.n.runsPlugin()):
			r.n.w.storage.mount(c.VolumeID, mount{r.n.id, r.id, c.Class()})
			return nil
		case resp.Ready:
			r.n.idle(time.Second)
		}
		if resp.Index > index && !resp.Ready {
			index = resp.Index
		} else {
			r.n.idle(100 * time.Millisecond)
		}
	}
}

// awaitHolders waits until no other allocation here has its ports, devices or host volumes.
func (r *run) awaitHolders() bool {
	for r.stopped.Err() == nil {
		if r.holder() == "" {
			return true
		}
		r.n.idle(100 * time.Millisecond)
	}
	return false
}

// holder returns an older allocation, or one that ends, with a part of this one.
func (r *run) holder() string {
	own := r.row()
	r.n.mu.Lock()
	defer r.n.mu.Unlock()
	for id, other := range r.n.runs {
		a := other.row()
		older := a.CreateIndex <= own.CreateIndex || other.stopped.Err() != nil
		if id == r.id || !older || other.isOver() {
			continue
		}
		if portsOf(a).Holder(own) != "" || (capacity.DeviceUse{}).Add(a).Holder(own) != "" ||
			storage.HostVolumeConflict(r.group, other.group) != "" {
			return id
		}
	}
	return ""
}

// isOver reports whether the tasks have ended.
func (r *run) isOver() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.ended.IsZero()
}

// work is the time in which the tasks run.
func (r *run) work() {
	var lives time.Duration
	behaviour := r.group.Tasks[0].Env[behaves]
	fails := false
	switch {
	case r.row().Job.Finite():
		lives = time.Second + r.random(2*time.Minute)
		if !r.n.w.friendly.Load() && r.random(time.Second) < 200*time.Millisecond {
			lives += r.random(30 * time.Minute)
		}
		fails = r.random(time.Second) < 200*time.Millisecond
	case behaviour == crashes:
		lives = time.Second + r.random(20*time.Second)
		fails = true
	case r.random(time.Second) < 50*time.Millisecond:
		lives = r.random(5 * time.Minute)
		fails = true
	}
	var end <-chan time.Time
	if lives > 0 {
		end = time.After(lives)
	}
	for {
		due := r.judge(behaviour)
		select {
		case <-r.stopped.Done():
			r.die()
			return
		case <-end:
			if fails && r.n.w.friendly.Load() && !r.row().Job.Finite() {
				end = nil
				continue
			}
			r.mu.Lock()
			r.failed = fails && !r.n.w.friendly.Load()
			r.mu.Unlock()
			return
		case <-r.changed:
		case <-due:
		}
	}
}

// die takes the time that the tasks take to stop: up to their kill_timeout.
func (r *run) die() {
	timeout := r.group.Tasks[0].KillTimeout
	if r.random(time.Second) < 300*time.Millisecond {
		r.n.idle(timeout)
		return
	}
	r.n.idle(r.random(timeout))
}

// judge reports the health if it is known now: that in the deployment, or for drains. Otherwise it returns
// when it will be.
func (r *run) judge(behaviour string) <-chan time.Time {
	a := r.row()
	rule := r.group.HealthRule(a.DeploymentID != "")
	subject := cmp.Or(a.DeploymentID, fmt.Sprint("version ", a.JobVersion))
	r.mu.Lock()
	known := r.judged == subject || rule == nil || a.ServerTerminal()
	after := time.Second
	if !known {
		after = rule.MinTime
		if behaviour == sick {
			after = rule.Deadline
		}
	}
	left := time.Until(r.started.Add(after))
	if !known && left <= 0 {
		r.judged = subject
	}
	r.mu.Unlock()
	switch {
	case known:
		return nil
	case left > 0:
		return time.After(left)
	}
	r.reportHealth(a.DeploymentID, behaviour != sick)
	return nil
}

// state is the report of the allocation.
func (r *run) state() *structs.AllocClientUpdate {
	r.mu.Lock()
	defer r.mu.Unlock()
	task := &structs.TaskState{State: structs.TaskPending, StartedAt: r.started, FinishedAt: r.ended}
	u := &structs.AllocClientUpdate{
		ID:           r.id,
		ClientStatus: structs.AllocPending,
		TaskStates:   map[string]*structs.TaskState{r.group.Tasks[0].Name: task},
	}
	switch {
	case !r.ended.IsZero():
		task.State = structs.TaskDead
		task.Failed = r.failed
		u.ClientStatus = structs.AllocComplete
		if r.failed {
			u.ClientStatus = structs.AllocFailed
		}
	case !r.started.IsZero():
		task.State = structs.TaskRunning
		u.ClientStatus = structs.AllocRunning
	}
	return u
}

func (r *run) send(u *structs.AllocClientUpdate) {
	_, _ = call(r.n.life(), r.n, structs.NodeUpdateAllocs, &structs.AllocsClientUpdateRequest{
		NodeID:   r.n.id,
		SecretID: r.n.secret,
		Allocs:   []*structs.AllocClientUpdate{u},
	})
}

func (r *run) report() { r.send(r.state()) }

func (r *run) reportHealth(deployment string, healthy bool) {
	u := r.state()
	u.DeploymentID = deployment
	u.DeploymentStatus = &structs.AllocDeploymentStatus{Healthy: &healthy, Timestamp: time.Now()}
	r.send(u)
}

// release unmounts and releases the volumes. It reports false when the power is gone.
func (r *run) release() bool {
	r.n.mu.Lock()
	rec := r.n.records[r.id]
	r.n.mu.Unlock()
	if rec == nil {
		return true
	}
	for _, k := range rec.keys {
		for usesPlugin(k.VolumeID) && !r.n.runsPlugin() {
			if !r.n.idle(time.Second) {
				return false
			}
		}
		r.n.w.storage.unmount(k.VolumeID, func(m mount) bool { return m.alloc == r.id })
	}
	_, err := call(r.n.life(), r.n, structs.CSIVolumeUnpublish, &structs.CSIVolumeUnpublishRequest{
		NodeID:   r.n.id,
		SecretID: r.n.secret,
		Claims:   rec.keys,
	})
	if err != nil {
		return false
	}
	r.n.mu.Lock()
	delete(r.n.records, r.id)
	r.n.mu.Unlock()
	return true
}

func portsOf(a *structs.Allocation) capacity.PortUse {
	use := capacity.PortUse{}
	use.Add(a)
	return use
}
