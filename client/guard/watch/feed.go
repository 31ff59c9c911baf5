package watch

import (
	"errors"
	"path/filepath"
	"time"

	"berth/internal/boottime"
	"berth/structs"
	"berth/structs/cluster"
)

// watchdogTimeout is the time from the last feed to the reboot. The servers release a volume GuardEndTime
// after the end of the lease at the earliest, and the feeds stop GuardKillTime after it. The rest is for the
// looks.
const watchdogTimeout = cluster.GuardEndTime - structs.GuardKillTime - time.Second

// feeder feeds the watchdog of the machine while there is a volume to guard, and all is well. It looks by
// itself: a guard that hangs at a disk is no reason for a reboot while the lease runs.
type feeder struct {
	g       *guard
	path    string
	control WatchdogControl

	device  *Watchdog        // nil: closed
	until   boottime.Instant // the end of the last known lease, or when it was missed
	starved bool             // it does not feed, so that the machine reboots
	told    string           // the last fault
}

// run feeds until stop is closed.
func (f *feeder) run(stop <-chan struct{}) {
	looks := time.NewTicker(poll)
	defer looks.Stop()
	for {
		f.step(f.g.clock())
		select {
		case <-looks.C:
		case <-stop:
			f.end()
			return
		}
	}
}

// step feeds the watchdog once, if that is right.
func (f *feeder) step(now boottime.Instant) {
	f.readLease(now)

	needed, late := f.g.findLate(f.until, now)
	if late != "" && !f.starved {
		logf("allocation %s has not ended: the watchdog is not fed any more, and reboots the machine", late)
	}
	f.starved = late != ""

	var err error
	switch {
	case f.starved: // neither fed nor closed: the device reboots the machine
	case !needed:
		err = f.close()
	case f.device == nil:
		err = f.open()
	default:
		err = f.device.Feed()
	}
	if err != nil && err.Error() != f.told {
		f.told = err.Error()
		logf("%v", err)
	}
}

func (f *feeder) open() error {
	d, actual, err := OpenWatchdog(f.path, watchdogTimeout, f.control)
	if err != nil {
		return err
	}

	f.device = d
	// A device may know only longer timeouts.
	if actual > watchdogTimeout {
		logf("the watchdog %s has a timeout of %s: a machine whose tasks do not end may reboot after the servers "+
			"have released their volumes, unless heartbeat_grace is at least %s on all servers",
			f.path, actual, actual-watchdogTimeout)
	}
	return nil
}

func (f *feeder) close() error {
	if f.device == nil {
		return nil
	}
	err := f.device.Close()
	f.device = nil
	return err
}

// end closes the watchdog, unless the machine is about to reboot.
func (f *feeder) end() {
	if f.starved {
		return
	}
	err := f.close()
	if err != nil {
		logf("closing the watchdog: %v", err)
	}
}

// readLease reads the lease. A missing one ends when it is missed.
func (f *feeder) readLease(now boottime.Instant) {
	l, err := ReadLease(filepath.Join(f.g.files.Memory, LeaseFileName), f.g.boot)
	switch {
	case err == nil:
		f.until = l.Until
	case errors.Is(err, ErrLeaseEnded) && (f.until.IsZero() || f.until > now):
		f.until = now
	}
}

// findLate reports whether any allocation has volumes to unmount, and finds one that has not ended in time: a
// process of it is left, or a mount.
func (g *guard) findLate(until, now boottime.Instant) (needed bool, late string) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for id, o := range g.orders {
		if len(o.Volumes) == 0 {
			continue
		}
		needed = true

		since := o.End(until)
		e := g.ending[id]
		if e != nil {
			since = e.unended
		}
		if !since.IsZero() && now >= since.Add(structs.GuardKillTime) {
			return true, id
		}
	}
	return needed, ""
}
