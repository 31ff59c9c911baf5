package stats

import (
	"context"
	"encoding/json"

	"berth/client/csi/helpers"
	"berth/client/csi/stats/statfs"
	"berth/structs"
	"berth/structs/volumeusage"
)

// askFileSystem asks the file system at a path, in a process of its own. It has the errors of Pool.Output.
func askFileSystem(ctx context.Context, pool *helpers.Pool, path string) (*volumeusage.VolumeUsage, error) {
	out, err := pool.Output(ctx, statfs.Arg, path)
	if err != nil {
		return nil, err
	}

	var a statfs.Answer
	err = json.Unmarshal(out, &a)
	if err != nil {
		return nil, structs.Internalf("the output of statfs: %w", err)
	}
	return &volumeusage.VolumeUsage{
		Source: volumeusage.SourceStatfs,
		Bytes:  amount(a.Bytes, a.FreeBytes, a.AvailableBytes),
		Inodes: amount(a.Inodes, a.FreeInodes, a.FreeInodes),
	}, nil
}

// amount returns nil for a total of 0: the file system does not count this.
func amount(total, free, available uint64) *volumeusage.UsageAmount {
	const most = 1<<63 - 1
	if total == 0 || total > most || free > total || available > total {
		return nil
	}
	return &volumeusage.UsageAmount{
		Total:     int64(total),
		Used:      int64(total - free),
		Available: int64(available),
	}
}
