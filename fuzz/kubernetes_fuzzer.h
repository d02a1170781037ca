// What is fuzzed of tokens of Kubernetes ServiceAccounts: any bytes, as a token, as what a token
// says, as what an operator declares, and as what an API server answers.
#pragma once

#include <string_view>

namespace lockstep::fuzz {

// Ends the process where something that must hold does not: an answer gives rights that no account
// was declared with, or for another reason than that it is authenticated, for this audience, and of
// that account; a token expires beyond the bound; an error shows bytes that others wrote.
void ReadKubernetes(std::string_view bytes);

}  // namespace lockstep::fuzz
