package structs

import (
	"crypto/sha256"
	"fmt"
	"slices"
	"strings"
)

// ScalingHorizontal is the type of a policy that changes the count of a group. There is no other.
const ScalingHorizontal = "horizontal"

// ScalingPolicy bounds the count of a group, and tells an autoscaler how to change it. The servers hold the
// count between Min and Max. They only keep Policy and Enabled, which the autoscaler reads.
type ScalingPolicy struct {
	Type    string         `json:",omitempty"`
	Min     *int64         // nil: the count
	Max     *int64         // required
	Policy  map[string]any // the autoscaler's own
	Enabled *bool          // nil: true

	// The servers answer these, and ignore them in a job.

	ID        string            `json:",omitempty" codec:",omitempty"`
	Namespace string            `json:",omitempty" codec:",omitempty"`
	Target    map[string]string `json:",omitempty" codec:",omitempty"`
	Indexes
}

// The keys of the target of a policy.
const (
	targetNamespace = "Namespace"
	targetJob       = "Job"
	targetGroup     = "Group"
)

// Holds returns an error if a count is outside of the bounds. No policy has bounds if p is nil.
func (p *ScalingPolicy) Holds(count int64) error {
	switch {
	case p == nil:
	case p.Min != nil && count < *p.Min:
		return Invalidf("count %d is below min %d of the scaling policy", count, *p.Min)
	case p.Max != nil && count > *p.Max:
		return Invalidf("count %d is above max %d of the scaling policy", count, *p.Max)
	}
	return nil
}

// Nearest returns the count within the bounds that is nearest to another one.
func (p *ScalingPolicy) Nearest(count int) int {
	switch {
	case p == nil:
	case p.Max != nil && count > int(*p.Max):
		return int(*p.Max)
	case p.Min != nil && count < int(*p.Min):
		return int(*p.Min)
	}
	return count
}

// ScalingPolicies returns the policies of the groups of a job, with their targets. A stopped job has none.
func (j *Job) ScalingPolicies() []*ScalingPolicy {
	if j.Stop {
		return nil
	}

	var all []*ScalingPolicy
	for _, g := range j.TaskGroups {
		if g == nil || g.Scaling == nil {
			continue
		}

		p := *g.Scaling
		p.ID = ScalingPolicyID(j.Namespace, j.ID, g.Name)
		p.Namespace = j.Namespace
		p.Target = map[string]string{
			targetNamespace: j.Namespace,
			targetJob:       j.ID,
			targetGroup:     g.Name,
		}

		p.Indexes = Indexes{CreateIndex: j.CreateIndex, ModifyIndex: j.JobModifyIndex}
		all = append(all, &p)
	}

	return all
}

// ScalingPolicyID returns the ID of the policy of a group. It stays the same in all versions of the job.
func ScalingPolicyID(namespace, job, group string) string {
	sum := sha256.Sum256([]byte(strings.Join([]string{"scaling policy", namespace, job, group}, "\x00")))
	return fmt.Sprintf("%x-%x-%x-%x-%x", sum[:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])
}

// HasScaling reports whether a group has a scaling policy.
func (j *Job) HasScaling() bool {
	return slices.ContainsFunc(j.TaskGroups, func(g *TaskGroup) bool { return g != nil && g.Scaling != nil })
}

// JobID returns the ID of the job that a policy scales.
func (p *ScalingPolicy) JobID() string { return p.Target[targetJob] }

// Stub returns the policy as lists show it.
func (p *ScalingPolicy) Stub() *ScalingPolicyListStub {
	return &ScalingPolicyListStub{
		ID:        p.ID,
		Enabled:   p.Enabled == nil || *p.Enabled,
		Type:      p.Type,
		Target:    p.Target,
		Indexes:   p.Indexes,
		Namespace: p.Namespace,
	}
}

// ScalingPolicyListStub is one policy in a list.
type ScalingPolicyListStub struct {
	ID        string
	Namespace string
	Enabled   bool
	Type      string
	Target    map[string]string
	Indexes
}

// ScalingPolicyList lists the scaling policies of jobs.
var ScalingPolicyList = Read[ScalingPolicyListRequest, ScalingPolicyListResponse]("Scaling.ListPolicies")

// ScalingPolicyListRequest selects policies by their job and type. "" selects all.
type ScalingPolicyListRequest struct {
	Job  string
	Type string
	QueryOptions
}

// ScalingPolicyListResponse has the policies that match, by ID.
type ScalingPolicyListResponse struct {
	Policies []*ScalingPolicyListStub
	QueryMeta
}

// ScalingPolicyGet reads one scaling policy.
var ScalingPolicyGet = Read[ScalingPolicyGetRequest, ScalingPolicyGetResponse]("Scaling.GetPolicy")

// ScalingPolicyGetRequest names a policy.
type ScalingPolicyGetRequest struct {
	ID string
	QueryOptions
}

// ScalingPolicyGetResponse has the policy.
type ScalingPolicyGetResponse struct {
	Policy *ScalingPolicy
	QueryMeta
}
