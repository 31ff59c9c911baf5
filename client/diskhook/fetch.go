package diskhook

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"berth/internal/backoff"
	"berth/rpc"
	"berth/structs"
)

const (
	awaitMost     = 5 * time.Minute // of one blocking query for the end of an allocation
	callTimeout   = 2 * time.Minute // of the call for one page
	progressEvery = 2 * time.Second
)

// retryPause is the pause between two tries to reach the servers or, through them, the other node.
var retryPause = backoff.Backoff{Min: time.Second, Max: 30 * time.Second}

// fetch takes over the data of an allocation of another node. It returns another allocation which has that
// data instead.
func (d *disk) fetch(ctx context.Context, from string) (instead string, err error) {
	previous, err := d.awaitEnd(ctx, from)
	if err != nil {
		return "", err
	}
	if previous.NodeID == d.NodeID {
		return "", stays("this node has removed the directory of allocation %s", from)
	}
	u, err := newUnpacker(d.env.Dir, dataDirs(d.env.Group), d.mostBytes())
	if err != nil {
		return "", err
	}
	defer u.close()
	instead, err = d.copyAll(ctx, previous, u)
	if err != nil || instead != "" {
		return instead, err
	}
	if err := u.commit(); err != nil {
		return "", err
	}
	whole := filepath.Join(d.env.Dir, ownDir, wholeName)
	err = moveDirs(whole, d.env.Dir, dataDirs(d.env.Group))
	if err == nil {
		d.Report(d.env.Alloc.ID, fmt.Sprintf("Took over %s of allocation %s from node %s",
			u.moved(), from, structs.ShortID(previous.NodeID)))
	}
	return "", err
}

// mostBytes returns the size of the disk, as the scheduler counts it.
func (d *disk) mostBytes() int64 {
	return int64(d.env.Group.Ask().DiskMB) << 20
}

// awaitEnd waits until the servers know that an allocation has ended.
func (d *disk) awaitEnd(ctx context.Context, id string) (*structs.Allocation, error) {
	d.Progress(d.env.Alloc.ID, fmt.Sprintf(
		"waits for the end of allocation %s on its node, whose data it takes over", id))
	req := &structs.AllocGetRequest{AllocID: id}
	req.Region = d.Region
	req.Namespace = d.env.Alloc.Namespace
	req.MaxWait = awaitMost
	pause := retryPause
	for {
		resp, err := rpc.Call(ctx, d.Servers, structs.AllocGet, req)
		switch {
		case err == nil && resp.Alloc.ClientTerminal():
			return resp.Alloc, nil
		case err == nil:
			pause.Reset()
			req.MinIndex = resp.Index
			continue
		case structs.IsKind(err, structs.KindNotFound):
			return nil, stays("allocation %s is gone", id)
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}
		d.Logger.Warn("failed to wait for the end of an allocation, retrying",
			"alloc_id", d.env.Alloc.ID, "previous_alloc", id, "error", err)
		if !backoff.Sleep(ctx, pause.After(err)) {
			return nil, ctx.Err()
		}
	}
}

// copyAll copies all pages of the data. It waits while the other node does not answer and is not down.
func (d *disk) copyAll(
	ctx context.Context, from *structs.Allocation, u *unpacker,
) (instead string, err error) {
	req := &structs.AllocDataRequest{
		AllocID:   from.ID,
		Successor: d.env.Alloc.ID,
		NodeID:    d.NodeID,
		SecretID:  d.SecretID,
	}
	req.Region = d.Region
	pause := retryPause
	var shown time.Time
	for {
		if time.Since(shown) >= progressEvery {
			shown = time.Now()
			d.Progress(d.env.Alloc.ID, fmt.Sprintf("takes over the data of allocation %s from node %s: %s so far",
				from.ID, structs.ShortID(from.NodeID), u.moved()))
		}
		resp, err := d.page(ctx, req)
		if err != nil {
			err = d.mayRetry(ctx, from, err)
			if err == nil && !backoff.Sleep(ctx, pause.Next()) {
				err = ctx.Err()
			}
			if err != nil {
				return "", err
			}
			continue
		}
		pause.Reset()
		if resp.Instead != "" {
			return resp.Instead, nil
		}
		for _, e := range resp.Entries {
			if err := u.add(e); err != nil {
				return "", err
			}
		}
		if resp.Done {
			return "", nil
		}
		if len(resp.Entries) == 0 {
			return "", stays("node %s sends no more of the data", structs.ShortID(from.NodeID))
		}
		req.After, req.Offset = u.next()
	}
}

func (d *disk) page(ctx context.Context, req *structs.AllocDataRequest) (*structs.AllocDataResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return rpc.Call(ctx, d.Servers, structs.AllocData, req)
}

// mayRetry returns nil if the call for a page is to be repeated.
func (d *disk) mayRetry(ctx context.Context, from *structs.Allocation, err error) error {
	node := structs.ShortID(from.NodeID)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case structs.IsKind(err, structs.KindUnavailable),
		structs.IsKind(err, structs.KindTimeout),
		structs.IsKind(err, structs.KindNotFound): // the servers do not know this node now
	default:
		return stays("the data of allocation %s stays on node %s: %v", from.ID, node, err)
	}
	d.Logger.Warn("failed to read the data of an allocation, retrying",
		"alloc_id", d.env.Alloc.ID, "previous_alloc", from.ID, "node", from.NodeID, "error", err)
	req := &structs.NodeGetRequest{NodeID: from.NodeID}
	req.Region = d.Region
	resp, getErr := rpc.Call(ctx, d.Servers, structs.NodeGet, req)
	switch {
	case structs.IsKind(getErr, structs.KindNotFound):
		return stays("the data of allocation %s stays on node %s, which is not registered any more", from.ID, node)
	case getErr == nil && resp.Node.Status == structs.NodeDown:
		return stays("the data of allocation %s stays on node %s, which is down", from.ID, node)
	}
	return nil
}

// next returns the place after the last entry.
func (u *unpacker) next() (after string, offset int64) {
	if u.last.More {
		return u.last.Path, u.last.Offset + int64(len(u.last.Data))
	}
	return u.last.Path, 0
}

// moved describes the data so far.
func (u *unpacker) moved() string {
	return fmt.Sprintf("%.1f MiB in %d files", float64(u.size)/(1<<20), u.made)
}
