-- Which commands may this user not run? Runs none of them. Scripts may ask this
-- without the right to look at ACLs.
--
-- KEYS   none
-- ARGV   commands with arguments, each in one string: "SET ag:x 1"
-- Answer: the names of the forbidden ones; nil before Redis 7.0, which cannot say
if not redis.acl_check_cmd then return false end
local missing = {}
for _, line in ipairs(ARGV) do
  local words = {}
  for word in string.gmatch(line, '%S+') do words[#words + 1] = word end
  if not redis.acl_check_cmd(unpack(words)) then missing[#missing + 1] = words[1] end
end
return missing
