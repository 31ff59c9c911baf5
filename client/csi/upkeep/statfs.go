package upkeep

import (
	"context"
	"fmt"
	"time"

	"berth/client/csi/helper"
	"berth/structs"
	"berth/structs/storage"
)

// maxAsked bounds the file systems that one process asks. Its start costs as much as about a hundred of them.
const maxAsked = 128

// asking is how askFileSystems asks.
type asking struct {
	pool *helper.Pool
	wait time.Duration // for one answer
	// tell takes the answer of the file system at an index.
	tell func(i int, u *storage.VolumeUsage, err error)
}

// askFileSystems asks the file systems at paths, one after the other, in one process of its own. It returns
// how many of them it has told of, at least one. If these are not all, the last one has cost the process: it
// did not answer in time, and its error is a timeout, or the process has failed. Other errors are
// unavailable. held is not nil after a timeout: it is closed at the end of the process, which the file system
// may hold for ever.
func askFileSystems(ctx context.Context, a asking, paths []string) (told int, held <-chan error) {
	question := helper.StatfsQuestion{Paths: paths}
	stream, err := helper.Start[helper.StatfsAnswer](a.pool, question, helper.StatfsArg)
	if err != nil {
		for i := range paths {
			a.tell(i, nil, err)
		}
		return len(paths), nil
	}
	defer func() {
		stream.Close()
		for range stream.Answers { // one may have come meanwhile
		}
	}()

	for i, path := range paths {
		u, err, ended := nextAnswer(ctx, stream.Answers, a.wait)
		if err != nil {
			err = fmt.Errorf("%s %s: %w", helper.StatfsArg, path, err)
		}
		a.tell(i, u, err)
		switch {
		case structs.IsKind(err, structs.KindTimeout):
			return i + 1, stream.Ended
		case ended:
			return i + 1, nil
		}
	}
	return len(paths), nil
}

// nextAnswer waits for an answer. ended is true if there will be no further one.
func nextAnswer(
	ctx context.Context, answers <-chan helper.StatfsAnswer, wait time.Duration,
) (u *storage.VolumeUsage, err error, ended bool) {
	limit := time.NewTimer(wait)
	defer limit.Stop()
	select {
	case a, open := <-answers:
		switch {
		case !open:
			return nil, structs.Unavailablef("its process has ended without an answer"), true
		case a.Error != "":
			return nil, structs.Unavailablef("%s", structs.Printable(a.Error)), false
		}
		return usageOf(a), nil, false
	case <-limit.C:
	case <-ctx.Done():
	}
	return nil, structs.Timeoutf("it does not end: the server of the file system may have failed"), true
}

func usageOf(a helper.StatfsAnswer) *storage.VolumeUsage {
	return &storage.VolumeUsage{
		Source: storage.UsageByStatfs,
		Bytes:  amount(a.Bytes, a.FreeBytes, a.AvailableBytes),
		Inodes: amount(a.Inodes, a.FreeInodes, a.FreeInodes),
	}
}

// amount returns nil for a total of 0: the file system does not count this.
func amount(total, free, available uint64) *storage.UsageAmount {
	const most = 1<<63 - 1
	if total == 0 || total > most || free > total || available > total {
		return nil
	}
	return &storage.UsageAmount{
		Total:     int64(total),
		Used:      int64(total - free),
		Available: int64(available),
	}
}
