package csitrace

import (
	"maps"

	spec "github.com/container-storage-interface/spec/lib/go/csi"
)

// ledger is what follows from the calls so far.
type ledger struct {
	inFlight map[string]*Call // by object, see volumeLock and snapshotLock

	// The effects that calls have or may have had.
	attached  map[place]*effect // without a path
	staged    map[place]*effect
	published map[place]*effect

	volumes   map[string]*volume   // by the plugin's ID, of those that a call has created
	creations map[string]*creation // by name
	snapshots map[string]*snapshot // by the plugin's ID
	groups    map[string][]string  // the members, sorted, by the plugin's ID of the group
	cuts      map[string]*creation // of snapshots, by name

	offers map[string]offer // by instance
	any    offer            // of all instances: each controller serves the volumes of all nodes
}

// place is where a volume is attached, staged or published.
type place struct {
	volume string
	node   string
	path   string
}

// effect is what a call has or may have had, until another call has undone it.
type effect struct {
	last *Call // the last call that makes the effect
	made *Call // the last one that succeeded after all calls that undo it; nil if none has
	undo *Call // the last call that undoes it and has not succeeded; nil if none was made
}

// creation has the calls that create an object of one name.
type creation struct {
	last *Call
	id   string // "" until a call has succeeded
}

// volume is a volume that a call has created.
type volume struct {
	context map[string]string
	deleted *Call // the last call that deletes it; nil if none was made
}

// snapshot is a snapshot that a call has created.
type snapshot struct {
	ready   bool
	deleted *Call  // the last call that deletes it; nil if none was made
	group   string // of which it is a member, "" for none
}

func newLedger() *ledger {
	return &ledger{
		inFlight:  map[string]*Call{},
		attached:  map[place]*effect{},
		staged:    map[place]*effect{},
		published: map[place]*effect{},
		volumes:   map[string]*volume{},
		creations: map[string]*creation{},
		snapshots: map[string]*snapshot{},
		groups:    map[string][]string{},
		cuts:      map[string]*creation{},
		offers:    map[string]offer{},
		any:       offer{},
	}
}

// effectOf returns the map with the effect of a call and its place, and whether the call undoes the effect.
// The map is nil for a call without such an effect.
func (l *ledger) effectOf(c *Call) (effects map[place]*effect, at place, undoes bool) {
	at = place{volume: volumeOf(c), node: nodeOf(c)}
	switch c.RPC {
	case "ControllerPublishVolume":
		return l.attached, at, false
	case "ControllerUnpublishVolume":
		return l.attached, at, true
	}
	at.path = pathOf(c)
	switch c.RPC {
	case "NodeStageVolume":
		return l.staged, at, false
	case "NodeUnstageVolume":
		return l.staged, at, true
	case "NodePublishVolume":
		return l.published, at, false
	case "NodeUnpublishVolume":
		return l.published, at, true
	}
	return nil, place{}, false
}

// begin records the start of a call.
func (l *ledger) begin(c *Call) {
	for _, object := range locksOf(c) {
		l.inFlight[object] = c
	}
	l.beginEffect(c)
	switch r := c.Request.(type) {
	case *spec.CreateVolumeRequest:
		beginCreation(l.creations, c)
	case *spec.CreateSnapshotRequest:
		beginCreation(l.cuts, c)
	case *spec.DeleteVolumeRequest:
		if v := l.volumes[r.GetVolumeId()]; v != nil {
			v.deleted = c
		}
	case *spec.DeleteSnapshotRequest:
		if s := l.snapshots[r.GetSnapshotId()]; s != nil {
			s.deleted = c
		}
	}
}

func (l *ledger) beginEffect(c *Call) {
	effects, at, undoes := l.effectOf(c)
	if effects == nil {
		return
	}
	e := effects[at]
	switch {
	case undoes && e != nil:
		e.made = nil
		e.undo = c
	case !undoes && e == nil:
		effects[at] = &effect{last: c}
	case !undoes:
		e.last = c
	}
}

func beginCreation(all map[string]*creation, c *Call) {
	made := all[nameOf(c)]
	if made == nil {
		made = &creation{}
		all[nameOf(c)] = made
	}
	made.last = c
}

// end records the end of a call.
func (l *ledger) end(c *Call) {
	for _, object := range locksOf(c) {
		if l.inFlight[object] == c {
			delete(l.inFlight, object)
		}
	}
	if c.RPC == PowerLoss {
		atNode := func(at place, _ *effect) bool { return at.node == c.Node }
		maps.DeleteFunc(l.staged, atNode)
		maps.DeleteFunc(l.published, atNode)
	}
	l.endEffect(c)
	if c.Code == OK {
		l.learn(c)
	}
}

// endEffect records the effect of a call. A call that fails leaves the effect in doubt, also if an earlier
// one had succeeded.
func (l *ledger) endEffect(c *Call) {
	effects, at, undoes := l.effectOf(c)
	if effects == nil {
		return
	}
	e := effects[at]
	switch {
	case e == nil || c.Code != OK && undoes:
	case c.Code != OK:
		e.made = nil
	case undoes && e.undo == c:
		delete(effects, at)
	case !undoes && e.last == c:
		e.made = c
		e.undo = nil
	}
}

// learn records what the answer of a call tells.
func (l *ledger) learn(c *Call) {
	switch a := c.Answer.(type) {
	case *spec.CreateVolumeResponse:
		v := a.GetVolume()
		l.creations[nameOf(c)].id = v.GetVolumeId()
		l.volumes[v.GetVolumeId()] = &volume{context: v.GetVolumeContext()}
	case *spec.CreateVolumeGroupSnapshotResponse:
		l.learnGroup(a.GetGroupSnapshot())
	case *spec.CreateSnapshotResponse:
		s := a.GetSnapshot()
		l.cuts[nameOf(c)].id = s.GetSnapshotId()
		l.snapshots[s.GetSnapshotId()] = &snapshot{ready: s.GetReadyToUse()}
	case *spec.DeleteVolumeResponse:
		forgetCreation(l.creations, volumeOf(c))
	case *spec.DeleteSnapshotResponse:
		forgetCreation(l.cuts, snapshotOf(c))
	}
	l.learnOffer(c)
}

// forgetCreation forgets the name of a deleted object: another creation may have it with other arguments.
func forgetCreation(all map[string]*creation, id string) {
	maps.DeleteFunc(all, func(_ string, made *creation) bool { return made.id == id })
}
