package devices

import (
	"github.com/hashicorp/go-hclog"

	"berth/client/store"
)

// deviceNumber identifies a device of the kernel: several files and links may lead to it.
type deviceNumber struct {
	Block  bool
	Number uint64
}

// holding is a record of the node: a device that an allocation got from the built-in plugin, and the path and
// the group under which it got it.
type holding struct {
	AllocID string
	Group   string
	Path    string
	Device  deviceNumber
}

var holdingTable = store.NewTable[holding]("host_devices")

// holdings are the devices that allocations have from the built-in plugin. The servers know a device by its
// path and its group. Both may change while a task uses the device: udev renames links, and an operator
// renames groups. The device is not offered under the other name then. The records outlive the agent, because
// nothing else knows the device of a path that is gone.
type holdings struct {
	records *store.DB
	holds   func(allocID string) bool
	logger  hclog.Logger
	byPath  map[string]holding // the records; host.mu guards it
}

// openHoldings reads the records of earlier agents.
func openHoldings(cfg Config, logger hclog.Logger) *holdings {
	h := &holdings{
		records: cfg.Records,
		holds:   cfg.Holds,
		logger:  logger,
		byPath:  map[string]holding{},
	}
	all, err := holdingTable.All(cfg.Records, "")
	if err != nil {
		logger.Error("failed to read which devices tasks have", "error", err)
	}
	// After an error, these are the records that could be read.
	for _, r := range all {
		h.byPath[r.Key] = *r.Value
	}
	return h
}

// byDevice forgets the devices of allocations that have ended, and returns the others.
func (h *holdings) byDevice() map[deviceNumber]holding {
	held := map[deviceNumber]holding{}
	for path, one := range h.byPath {
		if h.holds(one.AllocID) {
			held[one.Device] = one
			continue
		}
		delete(h.byPath, path)
		// The next start reads a record that is left, and deletes it here, because the allocation has ended.
		if err := holdingTable.Delete(h.records, path); err != nil {
			h.logger.Warn("failed to forget that a task had a device", "path", path, "error", err)
		}
	}
	return held
}

// add records a device before its task gets it.
func (h *holdings) add(one holding) error {
	err := holdingTable.Put(h.records, one.Path, &one)
	if err == nil {
		// The record comes first: without it, the next agent would offer the device under another name.
		h.byPath[one.Path] = one
	}
	return err
}
