package access

import "berth/structs"

// What a binding rule gives to a token.
const (
	BindRole       = "role"       // the role with the name or the ID
	BindPolicy     = "policy"     // the policy with the name
	BindManagement = "management" // everything
)

// BindingRule is the row of a rule that gives the tokens of logins their rights. Key: ID.
type BindingRule struct {
	ID          string
	Description string
	AuthMethod  string
	Selector    string // an expression over value.NAME and list.NAME; "" matches all
	BindType    string
	BindName    string // with ${value.NAME}; "" for management
	CreateTime  Time
	ModifyTime  Time
	structs.Indexes
}

// BindingRuleStub is a rule in lists.
type BindingRuleStub struct {
	ID          string
	Description string
	AuthMethod  string
	structs.Indexes
}

// Stub returns the rule as lists have it.
func (r *BindingRule) Stub() *BindingRuleStub {
	return &BindingRuleStub{
		ID:          r.ID,
		Description: r.Description,
		AuthMethod:  r.AuthMethod,
		Indexes:     r.Indexes,
	}
}

// BindingRuleList lists the rules.
var BindingRuleList = structs.Read[structs.QueryRequest, BindingRuleListResponse]("ACL.ListBindingRules")

// BindingRuleListResponse has the rules by ID.
type BindingRuleListResponse struct {
	Rules []*BindingRuleStub
	structs.QueryMeta
}

// BindingRuleGet reads a rule. The error is not-found.
var BindingRuleGet = structs.Read[BindingRuleGetRequest, BindingRuleGetResponse]("ACL.GetBindingRule")

// BindingRuleGetRequest names the rule.
type BindingRuleGetRequest struct {
	ID string
	structs.QueryOptions
}

// BindingRuleGetResponse has the rule.
type BindingRuleGetResponse struct {
	Rule *BindingRule
	structs.QueryMeta
}

// BindingRulePut creates a rule, or changes the one with the ID. A field that a change leaves out keeps its
// value. The method of a rule has to exist, and never changes.
var BindingRulePut = structs.Write[BindingRulePutRequest, BindingRulePutResponse]("ACL.UpsertBindingRule")

// BindingRulePutRequest has the rule as it is to be. The server gives a rule without an ID one.
type BindingRulePutRequest struct {
	Rule *BindingRule
	structs.WriteOptions
}

// BindingRulePutResponse has the rule as it is stored.
type BindingRulePutResponse struct {
	Rule *BindingRule
	structs.WriteMeta
}

// BindingRuleDelete deletes a rule. The error is not-found.
var BindingRuleDelete = structs.Write[BindingRuleDeleteRequest, structs.Empty]("ACL.DeleteBindingRule")

// BindingRuleDeleteRequest names the rule.
type BindingRuleDeleteRequest struct {
	ID string
	structs.WriteOptions
}

// BindingRuleChange is the payload of the log entry that stores a rule.
type BindingRuleChange struct {
	Rule *BindingRule
	Now  int64 // UnixNano
}
