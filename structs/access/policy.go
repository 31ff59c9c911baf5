package access

import "berth/structs"

// Policy is the row of an access policy. Key: Name.
type Policy struct {
	Name        string
	Description string
	Rules       string // HCL or JSON: see package acl
	// JobACL gives the policy to the identities of workloads, nil if only to tokens.
	JobACL *JobACL
	structs.Indexes
}

// JobACL names the workloads that have a policy by their identity. An empty field after the job names all.
type JobACL struct {
	Namespace string
	JobID     string
	Group     string
	Task      string
}

// PolicyStub is a policy in lists, without its rules.
type PolicyStub struct {
	Name        string
	Description string
	structs.Indexes
}

// Stub returns the policy as lists have it.
func (p *Policy) Stub() *PolicyStub {
	return &PolicyStub{
		Name:        p.Name,
		Description: p.Description,
		Indexes:     p.Indexes,
	}
}

// PolicyList lists the policies: all for a management token, otherwise the caller's token's.
var PolicyList = structs.Read[structs.QueryRequest, PolicyListResponse]("ACL.ListPolicies")

// PolicyListResponse has the policies by name.
type PolicyListResponse struct {
	Policies []*PolicyStub
	structs.QueryMeta
}

// PolicyGet reads a policy. The error is not-found if it does not exist.
var PolicyGet = structs.Read[NameRequest, PolicyGetResponse]("ACL.GetPolicy")

// NameRequest names a policy or a role.
type NameRequest struct {
	Name string
	structs.QueryOptions
}

// PolicyGetResponse has the policy.
type PolicyGetResponse struct {
	Policy *Policy
	structs.QueryMeta
}

// PolicyPut creates or replaces a policy.
var PolicyPut = structs.Write[PolicyPutRequest, structs.Empty]("ACL.UpsertPolicy")

// PolicyPutRequest has the policy as it is to be.
type PolicyPutRequest struct {
	Policy *Policy
	structs.WriteOptions
}

// PolicyDelete deletes a policy. Tokens and roles that name it lose what it gave. The error is not-found.
var PolicyDelete = structs.Write[PolicyDeleteRequest, structs.Empty]("ACL.DeletePolicy")

// PolicyDeleteRequest names the policy.
type PolicyDeleteRequest struct {
	Name string
	structs.WriteOptions
}
