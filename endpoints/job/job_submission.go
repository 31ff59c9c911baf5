package job

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"berth/state"
	"berth/structs"
	"berth/structs/validate"
	"berth/structs/validate/field"
)

// checkSource drops the source of a job that is too large, and returns a warning. The job itself does not
// depend on its source.
func (j Jobs) checkSource(req *structs.JobRegisterRequest) (warning string, err error) {
	s := req.Submission
	if s == nil {
		return "", nil
	}

	size := s.Size()
	switch {
	case j.JobSource == 0:
		// The operator wants no sources, so a warning would be in every answer.
	case holdsToken(s, req.ConsulToken):
		warning = "the source of the job is not stored: it has the Consul token; " +
			"give the token with -consul-token or CONSUL_HTTP_TOKEN"
	case size > j.JobSource:
		warning = fmt.Sprintf("the source of the job is not stored: it has %d bytes with its variables; "+
			"the servers store at most %d (job_max_source_size)", size, j.JobSource)
	default:
		return "", validate.JobSubmission(s)
	}

	// The registration goes on without the source.
	req.Submission = nil
	return warning, nil
}

// boundMemory returns a line for each group whose tasks have a memory_max that does not count in their pool.
func boundMemory(tx state.Reader, job *structs.Job) string {
	if state.MemoryOversubscribed(tx, job.NodePool) {
		return ""
	}
	var lines []string
	for _, g := range job.TaskGroups {
		if g != nil && g.HasMemoryMax() {
			lines = append(lines, fmt.Sprintf("group %q: memory_max has no effect: "+
				"enable memory_oversubscription in the configuration of the scheduler or of the node pool", g.Name))
		}
	}
	return field.JoinFaults(lines)
}

// largestMemory is the memory in MB above which a number is probably one of another unit. It is 1 TiB. A job
// that asks for more has most likely its number in bytes or KB.
const largestMemory = 1 << 20

// largeMemory returns a line for each task that demands more memory than any node has.
func largeMemory(tx *state.ReadTx, job *structs.Job) string {
	// tasksByDriver reads the job alone, and no nodes.
	c := driverCheck{}
	byDriver := c.tasksByDriver(job)
	most := int64(0)
	for _, tasks := range byDriver {
		for _, t := range tasks {
			if t.Resources != nil {
				most = max(most, int64(t.Resources.MemoryMB))
			}
		}
	}

	largest := int64(0)
	for n := range state.Nodes(tx) {
		if n.NodeResources != nil {
			largest = max(largest, n.NodeResources.Memory.MemoryMB)
		}

		// Most jobs ask for less than the first node has, so few nodes are read.
		if largest >= most {
			return ""
		}
	}

	// Without nodes there is nothing to compare with.
	if largest == 0 {
		largest = largestMemory
	}

	var lines []string
	for _, driver := range slices.Sorted(maps.Keys(byDriver)) {
		for _, t := range byDriver[driver] {
			if t.Resources != nil && int64(t.Resources.MemoryMB) > largest {
				lines = append(lines, fmt.Sprintf("%smemory is %d MB, and no node has more than %d MB; "+
					"memory is a number of MB", t.path, t.Resources.MemoryMB, largest))
			}
		}
	}

	return field.JoinFaults(lines)
}

// joinWarnings joins the warnings that are not empty.
func joinWarnings(all ...string) string {
	all = slices.DeleteFunc(all, func(s string) bool { return s == "" })
	return strings.Join(all, "\n")
}

// Submission reads the source of a version of a job. The error is not-found.
func (j Jobs) Submission(
	tx *state.ReadTx,
	req *structs.JobSubmissionRequest,
	resp *structs.JobSubmissionResponse,
) error {
	ns := req.RequestNamespace()
	job := state.Job(tx, ns, req.JobID)
	version := state.JobVersion(tx, ns, req.JobID, req.Version)
	if version == nil || job != nil && !state.IsVersionOf(version, job) {
		return state.NoVersion(ns, req.JobID, req.Version)
	}

	// A version without a source is told apart from a version that does not exist.
	resp.Submission = state.JobSubmission(tx, ns, req.JobID, req.Version)
	if resp.Submission != nil {
		return nil
	}
	return structs.NotFoundf("version %d of job %q was registered without its source",
		req.Version, req.JobID)
}
