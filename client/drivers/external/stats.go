package external

import (
	"context"
	"time"

	"google.golang.org/protobuf/types/known/durationpb"

	"berth/client/drivers/driver"
	protocol "berth/client/drivers/protocol/driver"
)

// Stats implements driver.Driver: the first of the statistics that the plugin sends.
func (d *Driver) Stats(ctx context.Context, id string) (*driver.Stats, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	var stats *driver.Stats
	err := d.inTask(ctx, id, func(service protocol.DriverClient) error {
		stream, err := service.TaskStats(ctx, &protocol.TaskStatsRequest{
			TaskId:             id,
			CollectionInterval: durationpb.New(time.Second),
		})
		if err != nil {
			return err
		}

		answer, err := stream.Recv()
		if err != nil {
			return err
		}

		stats = statsOf(answer.GetStats())
		return nil
	})

	return stats, err
}

// maxPercent is more than a machine has.
const maxPercent = 1e6

func statsOf(s *protocol.TaskStats) *driver.Stats {
	// A plugin may leave out any part: the getters of a missing one return zero.
	usage := s.GetAggResourceUsage()
	stats := &driver.Stats{CollectedAt: credibleTime(s.GetTimestamp()).UnixNano()}
	stats.MemoryRSS = usage.GetMemory().GetRss()
	stats.MemoryUsage = usage.GetMemory().GetUsage()
	stats.MemoryMax = usage.GetMemory().GetMaxUsage()
	stats.MemoryCache = usage.GetMemory().GetCache()
	stats.MemorySwap = usage.GetMemory().GetSwap()
	cpu := usage.GetCpu()
	percent := cpu.GetPercent()
	if cpu != nil && percent >= 0 && percent <= maxPercent { // and a number
		stats.Percent = &percent
	}
	stats.ThrottledPeriods = cpu.GetThrottledPeriods()
	stats.ThrottledTime = cpu.GetThrottledTime()
	stats.PIDs = uint64(len(s.GetResourceUsageByPid()))
	return stats
}
