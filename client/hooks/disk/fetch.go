package disk

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"time"

	"github.com/dustin/go-humanize"
	"golang.org/x/sys/unix"

	"berth/internal/backoff"
	"berth/rpc"
	"berth/structs"
	"berth/structs/nodecalls"
)

const (
	awaitMost     = 5 * time.Minute // of one blocking query for the end of an allocation
	callTimeout   = 2 * time.Minute // of the call for one page
	progressEvery = 2 * time.Second
)

// spacePause is the pause between two tries to copy data for which there is no space.
var spacePause = backoff.Backoff{Min: 15 * time.Second, Max: 5 * time.Minute}

// retryPause is the pause between two tries to reach the servers or, through them, the other node.
var retryPause = backoff.Backoff{Min: time.Second, Max: 30 * time.Second}

// fetch takes over the data of an allocation of another node. It returns another allocation which has that
// data instead.
func (d *disk) fetch(ctx context.Context, from string) (instead string, err error) {
	previous, err := d.awaitEnd(ctx, from)
	if err != nil {
		return "", err
	}

	// takeFrom has not found its directory here.
	if previous.NodeID == d.NodeID {
		return "", stays("this node has removed the directory of allocation %s", from)
	}

	pause := spacePause
	reported := false
	for {
		instead, err := d.copyData(ctx, previous)
		var wait *waitError
		if !errors.As(err, &wait) {
			return instead, err
		}

		d.Logger.Warn("data cannot come now, retrying", "alloc_id", d.env.Alloc.ID,
			"previous_alloc", from, "node", previous.NodeID, "error", err)
		reason := fmt.Sprintf("waits for the data of allocation %s on node %s: %s",
			from, structs.ShortID(previous.NodeID), wait.reason)
		d.Progress(d.env.Alloc.ID, reason)
		// Only the progress tells later reasons.
		if !reported {
			reported = true
			d.Report(d.env.Alloc.ID, "The allocation "+reason)
		}

		if !pause.Wait(ctx) {
			return "", ctx.Err()
		}
	}
}

// copyData makes one try to copy the data of an allocation and to put it into its place. Of data that is not
// whole it leaves nothing.
func (d *disk) copyData(ctx context.Context, previous *structs.Allocation) (instead string, err error) {
	dirs := dataDirs(d.env.Group)
	u, err := newUnpacker(d.env.Dir, dirs)
	if err != nil {
		return "", err
	}
	defer u.close()

	instead, err = d.copyAll(ctx, previous, u)
	if err != nil || instead != "" {
		return instead, errors.Join(err, u.remove())
	}

	err = u.commit()
	// A file system may find only now that its disk is full.
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		return "", errors.Join(waits("there is no space on this node for %s", u.moved()), u.remove())
	}
	if err == nil {
		err = moveDirs(filepath.Join(d.env.Dir, ownDir, wholeName), d.env.Dir, dirs)
	}
	if err == nil {
		d.Report(d.env.Alloc.ID, fmt.Sprintf("Took over %s of allocation %s from node %s",
			u.moved(), previous.ID, structs.ShortID(previous.NodeID)))
	}

	return "", err
}

// checkSpace returns a waitError if data with a number of bytes and files may not come, or has no space
// beside what has come.
func (d *disk) checkSpace(u *unpacker, bytes int64, files int) error {
	s := d.Settings()
	if bytes > int64(s.MaxSize) {
		return waits("it has %s, more than the %s of client.moved_data.max_size on this node; raise that",
			structs.FormatBytes(bytes), structs.FormatBytes(int64(s.MaxSize)))
	}

	if files > nodecalls.MaxDataFiles {
		return waits("it has more than %d files; only a new allocation on its own node takes them over",
			nodecalls.MaxDataFiles)
	}

	free, err := u.free()
	if err != nil {
		return err
	}

	// A part of the data takes its space already.
	if left := bytes - u.size; free-left < int64(s.MinFree) {
		return waits("%s of it do not fit: this node has %s free, and keeps %s by client.moved_data.min_free",
			humanize.IBytes(uint64(left)), humanize.IBytes(uint64(free)), humanize.IBytes(uint64(s.MinFree)))
	}

	return nil
}

// awaitEnd waits until the servers know that an allocation has ended.
func (d *disk) awaitEnd(ctx context.Context, id string) (*structs.Allocation, error) {
	d.Progress(d.env.Alloc.ID, fmt.Sprintf(
		"waits for the end of allocation %s on its node, whose data it takes over", id))
	req := &structs.AllocGetRequest{AllocID: id, NodeID: d.NodeID}
	req.Region = d.Region
	req.Namespace = d.env.Alloc.Namespace
	req.MaxWait = awaitMost
	pause := retryPause
	for {
		back := d.ServersBack.Next()
		resp, err := rpc.Call(ctx, d.Servers, structs.AllocGet, req)
		switch {
		case err == nil && resp.Alloc.ClientTerminal():
			return resp.Alloc, nil
		// Nothing tells when its node comes back.
		case err == nil && resp.Alloc.IsUnknown():
			return nil, stays("the data of allocation %s stays on node %s, which is away",
				id, resp.Alloc.NodeName)
		case err == nil:
			pause.Reset()
			// The next query waits for another change.
			req.MinIndex = resp.Index
			continue
		case structs.IsKind(err, structs.KindNotFound):
			return nil, stays("allocation %s is gone", id)
		case ctx.Err() != nil:
			return nil, ctx.Err()
		}

		d.Logger.Warn("failed to wait for the end of an allocation, retrying",
			"alloc_id", d.env.Alloc.ID, "previous_alloc", id, "error", err)
		if !pause.SleepAfter(ctx, pause.After(err), err, back) {
			return nil, ctx.Err()
		}
	}
}

// copyAll copies all pages of the data. It waits while the other node does not answer. The servers end the
// wait once that node is down.
func (d *disk) copyAll(
	ctx context.Context, from *structs.Allocation, u *unpacker,
) (instead string, err error) {
	req := &nodecalls.AllocDataRequest{
		AllocID:   from.ID,
		Successor: d.env.Alloc.ID,
		NodeID:    d.NodeID,
		SecretID:  d.SecretID,
	}
	req.Region = d.Region
	pause := retryPause
	var shown time.Time
	sum := ""
	for {
		if time.Since(shown) >= progressEvery {
			shown = time.Now()
			d.Progress(d.env.Alloc.ID, fmt.Sprintf("takes over the data of allocation %s from node %s: %s%s so far",
				from.ID, structs.ShortID(from.NodeID), u.moved(), sum))
		}

		back := d.ServersBack.Next()
		resp, failure := d.page(ctx, req)
		if failure != nil {
			err = d.mayRetry(ctx, from, failure)
			if err == nil && !pause.SleepAfter(ctx, pause.After(failure), failure, back) {
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

		// Only the first page has the sums.
		if req.After == "" {
			sum = fmt.Sprintf(" of %.1f MiB", float64(resp.Bytes)/(1<<20))
		}

		err = d.addPage(u, resp)
		if err != nil || resp.Done {
			return "", err
		}

		req.After, req.Offset = u.next()
	}
}

// addPage writes a page of the data, if there is space for it.
func (d *disk) addPage(u *unpacker, resp *nodecalls.AllocDataResponse) error {
	// The node may send more than it has announced.
	bytes := max(resp.Bytes, u.size+pageBytes(resp))
	files := max(resp.Files, u.made+len(resp.Entries))
	err := d.checkSpace(u, bytes, files)
	if err != nil {
		return err
	}

	for _, e := range resp.Entries {
		err := u.add(e)
		if err != nil {
			return err
		}
	}

	// The next request would be the same one.
	if !resp.Done && len(resp.Entries) == 0 {
		return waits("the node sends no more of it")
	}

	return nil
}

// page asks the servers for one page, which they get from the other node.
func (d *disk) page(
	ctx context.Context, req *nodecalls.AllocDataRequest,
) (*nodecalls.AllocDataResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	resp, err := rpc.Call(ctx, d.Servers, nodecalls.AllocData, req)
	// The answer comes from the other node, which is not trusted.
	if err == nil && slices.Contains(resp.Entries, nil) {
		err = structs.Internalf("the data has an empty entry")
	}
	return resp, err
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
	case structs.IsKind(err, structs.KindPrecondition):
		return stays("the data of allocation %s does not come from node %s: %v", from.ID, node, err)
	default:
		return waits("%v", err)
	}

	d.Logger.Warn("failed to read the data of an allocation, retrying",
		"alloc_id", d.env.Alloc.ID, "previous_alloc", from.ID, "node", from.NodeID, "error", err)
	return nil
}

// pageBytes returns the bytes of the files of a page.
func pageBytes(resp *nodecalls.AllocDataResponse) (sum int64) {
	for _, e := range resp.Entries {
		sum += int64(len(e.Data))
	}
	return sum
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
