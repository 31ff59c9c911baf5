// Package admission has the rows of admission rules and the requests about them. A rule is an expression in
// CEL that has to hold for each job, or for each volume, before the servers store it. Package internal/admit
// compiles and evaluates the expressions. It is apart: an admission rule is a noun, from these rows to its
// verbs.
package admission

import (
	"berth/structs"
)

// The objects that a rule is about.
const (
	OnJob    = "job"
	OnVolume = "volume"
)

// The consequences of an expression that does not hold.
const (
	ModeWarn = "warn" // the object is stored, and its submitter reads the message
	ModeDeny = "deny" // the object is not stored
)

// The bounds of rules.
const (
	MaxRules       = 128  // in the cluster
	MaxExpression  = 4096 // bytes
	MaxText        = 512  // bytes of a description, and of a message
	MaxNamespaces  = 64   // patterns of a rule
	MaxNamePattern = 128  // bytes of a pattern
)

// Rule is the row of an admission rule. Key: Name.
type Rule struct {
	Name        string
	Description string
	On          string // OnJob or OnVolume
	Mode        string // ModeWarn or ModeDeny
	// Namespaces are patterns of the namespaces in which the rule holds. * stands for any text. None: all.
	Namespaces []string
	// Expression is in CEL and of type bool. It holds for what the rule admits.
	Expression string
	Message    string // for the submitter: the fault, and its remedy
	structs.Indexes
}

// RuleList lists the rules.
var RuleList = structs.Read[structs.QueryRequest, RuleListResponse]("Admission.ListRules")

// RuleListResponse has the rules by name.
type RuleListResponse struct {
	Rules []*Rule
	structs.QueryMeta
}

// RuleGet reads a rule. The error is not-found if it does not exist.
var RuleGet = structs.Read[RuleGetRequest, RuleGetResponse]("Admission.GetRule")

// RuleGetRequest names the rule.
type RuleGetRequest struct {
	Name string
	structs.QueryOptions
}

// RuleGetResponse has the rule.
type RuleGetResponse struct {
	Rule *Rule
	structs.QueryMeta
}

// RulePut creates or replaces a rule whose expression compiles.
var RulePut = structs.Write[RulePutRequest, structs.Empty]("Admission.PutRule")

// RulePutRequest has the rule as it is to be.
type RulePutRequest struct {
	Rule *Rule
	structs.WriteOptions
}

// RuleDelete deletes a rule. The error is not-found.
var RuleDelete = structs.Write[RuleDeleteRequest, structs.Empty]("Admission.DeleteRule")

// RuleDeleteRequest names the rule.
type RuleDeleteRequest struct {
	Name string
	structs.WriteOptions
}

// RuleTest evaluates a rule on a job or a volume, and stores neither.
var RuleTest = structs.Read[RuleTestRequest, RuleTestResponse]("Admission.TestRule")

// RuleTestRequest has a rule, or the name of a stored one, and the object that the rule is about.
type RuleTestRequest struct {
	Name   string
	Rule   *Rule              // nil: the one with the name
	Job    *structs.Job       // nil for a volume
	Volume *structs.CSIVolume // nil for a job
	structs.QueryOptions
}

// RuleTestResponse has the outcome.
type RuleTestResponse struct {
	Rule     string // its name
	Applies  bool   // false: the namespace of the object matches no pattern of the rule
	Admitted bool   // also where the rule only warns, and where it does not apply
	Message  string // for the submitter, "" if the expression holds
	Cost     uint64 // of the evaluation, at most MaxCost of package internal/admit
	structs.QueryMeta
}
